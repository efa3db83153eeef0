"""torch.library.opcheck with or without its slow part."""

import torch

#: Without the dispatch to AOT autograd with dynamic shapes, which takes nearly all of the time.
QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")


def opcheck(
    op: object,
    arguments: tuple[object, ...],
    options: dict[str, object] | None = None,
    *,
    dispatch: bool,
) -> None:
    """`dispatch` is for one call of each kind; other calls of the same kind do without."""
    if dispatch:
        torch.library.opcheck(op, arguments, options)
    else:
        torch.library.opcheck(op, arguments, options, test_utils=QUICK)
