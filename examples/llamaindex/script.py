"""A model that follows a script: for examples that have to run offline and give the same each time.

The script is a generator. It yields what the model does next, a call of a tool or a text for the user,
and is sent what came back: the tool's answer, or the user's next question.

    def script():
        question = yield
        told = yield Call("look_up", topic="tides")
        question = yield f"High water is at {told}."
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata, MessageRole, ToolCallBlock
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import PrivateAttr


class Call:
    """The model wants a tool to be called; `say` is what it tells meanwhile."""

    def __init__(self, tool: str, say: str = "", **arguments: Any) -> None:
        self.tool, self.say, self.arguments = tool, say, arguments


class ScriptedModel(FunctionCallingLLM):
    """Plays one script, over as many turns of the conversation as it has."""

    _script: Generator = PrivateAttr()
    _calls: int = PrivateAttr(default=0)
    _seen: str = PrivateAttr(default="")

    def __init__(self, script: Generator) -> None:
        super().__init__()
        self._script = script
        next(script)  # up to its first `yield`, where it waits for the question

    @property
    def seen(self) -> str:
        """All that a real model would have been billed for in its last turn."""
        return self._seen

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", is_chat_model=True, is_function_calling_model=True)

    def _reply(self, messages: list[ChatMessage]) -> ChatResponse:
        self._seen = "\n".join(message.content or "" for message in messages)
        try:
            move = self._script.send(messages[-1].content or "")
        except StopIteration:
            move = "(the script is over)"
        if not isinstance(move, Call):
            return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=move))
        self._calls += 1
        message = ChatMessage(role=MessageRole.ASSISTANT, content=move.say)
        block = ToolCallBlock(tool_call_id=f"call-{self._calls}", tool_name=move.tool, tool_kwargs=move.arguments)
        message.blocks.append(block)
        return ChatResponse(message=message)

    # What LlamaIndex asks a function-calling model for; only `achat` is used by an agent that does not stream.

    def chat(self, messages, **_):
        return self._reply(list(messages))

    async def achat(self, messages, **_):
        return self._reply(list(messages))

    def stream_chat(self, messages, **_):
        yield self._reply(list(messages))

    async def astream_chat(self, messages, **_):
        async def one():
            yield self._reply(list(messages))

        return one()

    def complete(self, prompt, formatted=False, **_):
        raise NotImplementedError("this model only chats")

    async def acomplete(self, prompt, formatted=False, **_) -> CompletionResponse:
        raise NotImplementedError("this model only chats")

    def stream_complete(self, prompt, formatted=False, **_):
        raise NotImplementedError("this model only chats")

    async def astream_complete(self, prompt, formatted=False, **_):
        raise NotImplementedError("this model only chats")

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **_):
        messages = list(chat_history or [])
        if user_msg is not None:
            asked = user_msg if isinstance(user_msg, ChatMessage) else ChatMessage(role=MessageRole.USER, content=user_msg)
            messages.append(asked)
        return {"messages": messages, "tools": tools}

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **_):
        blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        if error_on_no_tool_call and not blocks:
            raise ValueError("no tool call in the answer")
        return [
            ToolSelection(tool_id=block.tool_call_id, tool_name=block.tool_name, tool_kwargs=dict(block.tool_kwargs))
            for block in blocks
        ]  # fmt: skip
