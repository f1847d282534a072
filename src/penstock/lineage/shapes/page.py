"""Long answers come in pages."""

from collections.abc import Sequence
from typing import Generic, Self, TypeVar

from pydantic import Field

from penstock.lineage.shapes.shape import Shape

Item = TypeVar("Item")


class PageMeta(Shape):
    """Which page it is, and what is beside it."""

    page: int = Field(description="Number of the page, from 1 on.")
    page_size: int = Field(description="How many items a page has at most.")
    total_count: int = Field(description="How many items there are on all pages.")
    pages_count: int = Field(description="How many pages there are; at least 1.")
    has_next: bool = Field(description="Whether a page follows.")
    has_previous: bool = Field(description="Whether there is a page before.")
    next_page: int | None = Field(description="Number of the next page, if there is one.")
    previous_page: int | None = Field(description="Number of the page before, if there is one.")


class Page(Shape, Generic[Item]):
    """One page of a list."""

    meta: PageMeta = Field(description="Which page it is.")
    items: list[Item] = Field(description="What is on it.")

    @classmethod
    def of(cls, items: Sequence[Item], *, page: int, page_size: int, total_count: int) -> Self:
        """Return the page with its neighbours."""
        pages_count = max(1, -(-total_count // page_size))
        has_next, has_previous = page < pages_count, page > 1
        meta = PageMeta(
            page=page,
            page_size=page_size,
            total_count=total_count,
            pages_count=pages_count,
            has_next=has_next,
            has_previous=has_previous,
            next_page=page + 1 if has_next else None,
            previous_page=page - 1 if has_previous else None,
        )
        return cls(meta=meta, items=list(items))
