"""`ChatEchodraft`: LangChain's chat model over the speculative engine.

Knows LangChain's calls and which options they may carry. Does not know documents: what can be copied from comes in
as `sources`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, field_validator, model_validator

from core import Completion, Engine, Request, SamplingParams

from . import decoding, messages, templates, tool_calls
from .engines import EngineSettings, SharedEngine, checked_model, default_model, engine_for

#: Options that a call may carry beside `stop`, by `invoke(..., name=value)` or `bind(name=value)`.
CALL_OPTIONS = frozenset(
    {"sources", "source_weights", "prediction", "model", "temperature", "top_k", "top_p", "min_p", "seed",
     "max_tokens", "timeout", "tools", "template_options"}
)  # fmt: skip


class ChatEchodraft(BaseChatModel):
    """A chat model that drafts by copying: the same tokens as plain decoding, sooner.

    `model` is a folder or hub id of a decoder-only model (default: the shipped one), loaded at the first call and
    shared by all instances with the same settings; `engine` is a running `core.Engine` to use instead. `seed` None
    draws one for each call. `timeout` in seconds. `template_options` go to the chat template. With a call go
    `sources` (texts worth copying from, best first), `source_weights` and `prediction`: they never change the
    answer. Concurrent calls, from threads or coroutines, share one running batch. `max_retries`
    and `api_key` are there for the interface: a local model has nothing to retry and asks nobody.

    Raises ValueError for a model that cannot be had, options that do not exist, prompts that do not fit.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    model: str = Field(default_factory=default_model)
    engine: Engine | None = Field(default=None, exclude=True, repr=False)
    drafter: str = "copy"
    drafter_options: tuple[str, ...] = ()
    device: str = "auto"
    dtype: str = "auto"
    exact: bool = False
    max_rows: int = 32
    threads: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int = 256
    stop: list[str] | None = None
    timeout: float | None = None
    max_retries: int = 0
    streaming: bool = False
    api_key: SecretStr | None = Field(default=None, exclude=True, repr=False)
    template_options: dict[str, Any] = Field(default_factory=dict)
    _shared: SharedEngine | None = PrivateAttr(default=None)

    def __new__(cls, *_: Any, **settings: Any) -> ChatEchodraft:
        """Where the model's template has tools, one that offers `bind_tools` (as `pathlib.Path` picks its class)."""
        made = cls
        if cls is ChatEchodraft and _takes_tools(settings):
            from .tool_chat_model import ToolChatEchodraft

            made = ToolChatEchodraft
        return object.__new__(made)

    @field_validator("stop", mode="before")
    @classmethod
    def _one_stop(cls, stop: Any) -> Any:
        return [stop] if isinstance(stop, str) else stop

    @model_validator(mode="after")
    def _told_at_once(self) -> ChatEchodraft:
        """Wrong settings are told now, not at the first call."""
        self._params(None, {})
        if self.engine is None:
            self.model = checked_model(self.model)
        return self

    @property
    def _llm_type(self) -> str:
        return "echodraft"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        names = ("model", "drafter", "dtype", "temperature", "top_k", "top_p", "min_p", "seed", "max_tokens",
                 "stop", "template_options")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def shared_engine(self, model: str | None = None) -> SharedEngine:
        """The engine, loaded if it is not yet. Raises ValueError for a model that cannot be had."""
        if model is not None and model != self.model:
            return engine_for(self._settings(model))
        if self._shared is None:
            self._shared = (
                engine_for(self._settings(self.model))
                if self.engine is None
                else SharedEngine.of(self.engine)
            )
        return self._shared

    def num_prompt_tokens(self, prompt: Sequence[BaseMessage]) -> int:
        """Tokens that these messages take, template included."""
        return len(self._prompt_ids(self.shared_engine().engine, prompt, {}))

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together."""
        return self.shared_engine().engine.target.max_length

    @property
    def num_parameters(self) -> int:
        """Size of the model; 0 where its class does not tell."""
        model = getattr(self.shared_engine().engine.target, "model", None)
        return 0 if model is None else sum(weights.numel() for weights in model.parameters())

    # -- what LangChain calls -------------------------------------------------------------------------

    def batch(
        self,
        inputs: list[LanguageModelInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[AIMessage]:
        """All inputs in one running batch, in their order (as many at once as the engine has rows)."""
        if config is None or (isinstance(config, dict) and config.get("max_concurrency") is None):
            config = {**(config or {}), "max_concurrency": max(1, min(len(inputs), self.max_rows))}
        return super().batch(inputs, config, return_exceptions=return_exceptions, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        shared, request, timeout = self._request(messages, stop, kwargs)
        answer = list(decoding.pieces(shared.engine, request, timeout))[-1]
        return self._result(request, answer, kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        shared, request, timeout = await decoding.in_thread(lambda: self._request(messages, stop, kwargs))
        made = [piece async for piece in shared.turns.pieces(request, timeout)]
        return self._result(request, made[-1], kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        shared, request, timeout = self._request(messages, stop, kwargs)
        for piece in decoding.pieces(shared.engine, request, timeout):
            chunk = self._chunk(request, piece, kwargs)
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        shared, request, timeout = await decoding.in_thread(lambda: self._request(messages, stop, kwargs))
        stream = shared.turns.pieces(request, timeout)
        try:
            async for piece in stream:
                chunk = self._chunk(request, piece, kwargs)
                if run_manager is not None:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        finally:
            await stream.aclose()

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return {**super()._get_ls_params(stop=stop, **kwargs), "ls_provider": "echodraft"}

    # -- from messages to a request and back ----------------------------------------------------------

    def _request(
        self, prompt: Sequence[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[SharedEngine, Request, float | None]:
        unknown = sorted(set(options) - self._call_options())
        if unknown:
            known = ", ".join(sorted(self._call_options()))
            raise ValueError(f"unknown option {unknown[0]!r}; a call may carry stop, {known}")
        shared = self.shared_engine(options.get("model"))
        params = self._params(stop, options)
        if not shared.engine.tokenizer.chat_template:
            params = replace(params, stop=(*params.stop, *templates.PLAIN_STOP))
        weights = options.get("source_weights")
        request = Request(
            self._prompt_ids(shared.engine, prompt, options),
            sources=tuple(options.get("sources") or ()),
            source_weights=None if weights is None else tuple(weights),
            prediction=options.get("prediction"),
            params=params,
        )
        timeout: float | None = options.get("timeout", self.timeout)
        return shared, request, timeout

    def _call_options(self) -> frozenset[str]:
        return CALL_OPTIONS

    def _prompt_ids(
        self, engine: Engine, prompt: Sequence[BaseMessage], options: dict[str, Any]
    ) -> list[int]:
        text = templates.render(
            engine.tokenizer,
            messages.conversation(prompt),
            tools=options.get("tools") or (),
            options=options.get("template_options", self.template_options),
        )
        return templates.prompt_ids(engine.tokenizer, text)

    def _params(self, stop: list[str] | None, options: dict[str, Any]) -> SamplingParams:
        def chosen(name: str) -> Any:
            value = options.get(name)
            return getattr(self, name) if value is None else value

        seed = chosen("seed")
        stops = self.stop if stop is None else stop
        return SamplingParams(
            temperature=chosen("temperature"),
            top_k=chosen("top_k"),
            top_p=chosen("top_p"),
            min_p=chosen("min_p"),
            max_new_tokens=chosen("max_tokens"),
            stop=tuple(stops or ()),
            seed=secrets.randbits(31) if seed is None else seed,
        )

    def _result(self, request: Request, answer: str | Completion, options: dict[str, Any]) -> ChatResult:
        assert isinstance(answer, Completion)
        message = AIMessage(
            answer.text,
            usage_metadata=messages.usage(len(request.prompt), answer),
            response_metadata=messages.metadata(options.get("model") or self.model, answer),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _chunk(
        self, request: Request, piece: str | Completion, options: dict[str, Any]
    ) -> ChatGenerationChunk:
        if isinstance(piece, str):
            return ChatGenerationChunk(message=AIMessageChunk(content=piece))
        return ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                usage_metadata=messages.usage(len(request.prompt), piece),
                response_metadata=messages.metadata(options.get("model") or self.model, piece),
                chunk_position="last",
            )
        )

    def _settings(self, model: str) -> EngineSettings:
        return EngineSettings(
            model,
            self.drafter,
            self.device,
            self.dtype,
            self.exact,
            self.max_rows,
            self.threads,
            self.drafter_options,
        )


def _takes_tools(settings: dict[str, Any]) -> bool:
    engine = settings.get("engine")
    if engine is not None:
        return tool_calls.takes_tools(engine.tokenizer.chat_template)
    return tool_calls.takes_tools(tool_calls.template_of(str(settings.get("model") or default_model())))
