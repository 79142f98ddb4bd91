"""`python -m apps.bench drafters`: the survey's table of drafters and verification rules, measured live.

The survey is Xia et al., "Unlocking Efficiency in Large Language Model Inference" (2401.07851). Every drafter that
`core.drafters` names, and every rule of `core.verification`, decodes the same prompts with the same target, in turn
with plain decoding.

What Spec-Bench (the survey's own benchmark) does and this one does not:

- **A mean of ratios.** It divides mean tokens per second; here the total time of plain decoding is divided by the
  total time of the drafter, over the same prompts. A prompt's time is the median over the rounds.
- **Overshoot counted.** It takes a method's own count of tokens, those behind the end token among them, against a
  re-tokenised, stripped text for the baseline. Here a token counts if it was kept, on both sides.
- **State that leaks between questions**, so that figures depend on their order. Here *cold* is a new drafter for
  every question, and *warm* one that has decoded other prompts before, in every round anew; both are shown.
- **Exactness checked elsewhere**, once, on text, all or nothing. Here the very outputs that were timed are compared
  token by token with plain decoding's, and the share that is identical stands beside the speed.

Reading the prompt is part of the time, on both sides.
"""
