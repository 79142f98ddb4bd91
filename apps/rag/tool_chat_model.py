"""`ToolChatEchodraft`: `ChatEchodraft` for models whose chat template takes tools.

Knows LangChain's tools and tool calls. With tools bound a streamed answer comes in one piece: half a call is none.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from core import Completion, Engine, Request

from . import tool_calls
from .chat_model import ChatEchodraft


class ToolChatEchodraft(ChatEchodraft):
    """As `ChatEchodraft`, which makes one of these where the model's template has tools."""

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type[BaseModel] | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Tools that the model may call. `tool_choice` is `auto`, `any`, or the name of one tool.

        Raises ValueError for a choice that cannot be forced on this model, or names no tool.
        """
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        names = [tool["function"]["name"] for tool in formatted]
        if tool_choice not in (None, "auto", "none", "any", "required", *names):
            raise ValueError(
                f"tool_choice={tool_choice!r} names no tool; choose any or one of {', '.join(names)}"
            )
        return self.bind(tools=formatted, tool_choice=tool_choice)

    def _call_options(self) -> frozenset[str]:
        # LangChain's structured output says what it wants, for tracing.
        return super()._call_options() | {"tool_choice", "ls_structured_output_format"}

    def _prompt_ids(
        self, engine: Engine, prompt: Sequence[BaseMessage], options: dict[str, Any]
    ) -> list[int]:
        ids = super()._prompt_ids(engine, prompt, options)
        beginning = self._beginning(options)
        return ids + engine.tokenizer.encode(beginning, add_special_tokens=False) if beginning else ids

    def _result(self, request: Request, answer: str | Completion, options: dict[str, Any]) -> ChatResult:
        result = super()._result(request, answer, options)
        if not options.get("tools"):
            return result
        message = result.generations[0].message
        assert isinstance(message, AIMessage)
        message.content, calls = tool_calls.read_calls(self._beginning(options) + str(message.content))
        for call in calls:
            name = f"call_{uuid.uuid4().hex[:12]}"
            if call.arguments is None:
                told = invalid_tool_call(
                    args=call.text, id=name, error="no JSON object with name and arguments"
                )
                message.invalid_tool_calls.append(told)
            else:
                message.tool_calls.append(tool_call(name=call.name, args=call.arguments, id=name))
        return result

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        if not kwargs.get("tools"):
            yield from super()._stream(messages, stop, run_manager, **kwargs)
            return
        chunk = _as_chunk(self._generate(messages, stop, **kwargs))
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
        if not kwargs.get("tools"):
            async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
                yield chunk
            return
        chunk = _as_chunk(await self._agenerate(messages, stop, **kwargs))
        if run_manager is not None:
            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
        yield chunk

    def _beginning(self, options: dict[str, Any]) -> str:
        template = self.shared_engine(options.get("model")).engine.tokenizer.chat_template
        return (
            tool_calls.forced_beginning(options.get("tool_choice"), template) if options.get("tools") else ""
        )


def _as_chunk(result: ChatResult) -> ChatGenerationChunk:
    message = result.generations[0].message
    assert isinstance(message, AIMessage)
    calls = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=index)
        for index, call in enumerate(message.tool_calls)
    ]
    calls += [
        tool_call_chunk(name=call["name"], args=call["args"], id=call["id"], index=len(calls) + index)
        for index, call in enumerate(message.invalid_tool_calls)
    ]
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=message.content,
            tool_call_chunks=calls,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )
    )
