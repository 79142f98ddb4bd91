"""LangChain's own standard tests, with nothing overridden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from apps.rag import ChatEchodraft


class OnSmallModel:
    """The class under test and its parameters, as langchain-tests asks for them."""

    folder: Path

    @pytest.fixture(autouse=True)
    def _model_folder(self, chat_folder: Path) -> None:
        self.folder = chat_folder

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatEchodraft

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": str(self.folder), "seed": 3}


class TestUnit(OnSmallModel, ChatModelUnitTests):
    pass


class TestIntegration(OnSmallModel, ChatModelIntegrationTests):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {**super().chat_model_params, "max_tokens": 24}
