"""Who asks."""

from typing import Annotated

from fastapi import APIRouter, Query

from penstock.lineage.api.asking import Reader
from penstock.lineage.shapes.catalogue import User
from penstock.lineage.shapes.parameters import Parameters

router = APIRouter(prefix="/users", tags=["Users"])


@router.get("/me", summary="Who asks")
def me(asker: Reader, _: Annotated[Parameters, Query()]) -> User:
    """Return the name of who asks; `anonymous` without sign-in."""
    return User(name=asker.name)
