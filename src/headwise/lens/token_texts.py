"""Tokens as text: what each adds to what stands before it."""

from __future__ import annotations

from typing import Any

from headwise._arrays import Array

_BEFORE = 6  # tokens that are decoded with one, for the spaces between them


def token_texts(tokenizer: Any, ids: Array) -> list[str] | None:
    """Return the text of each token, so that all of them joined are the decoded text.

    A character that several tokens share stands at the last of them; the others are empty. None
    without a tokenizer.

    Parameters
    ----------
    tokenizer
        With a method ``decode``, as those of transformers and of tokenizers have it.
    ids
        ``(length,)``.

    Examples
    --------
    >>> from headwise.lens.token_texts import token_texts
    >>> class Letters:
    ...     def decode(self, ids):
    ...         return bytes(ids).decode("utf-8", "replace")
    >>> token_texts(Letters(), [72, 105, 195, 188])
    ['H', 'i', '', 'ü']
    """
    if tokenizer is None:
        return None
    numbers = [int(x) for x in ids]
    texts: list[str] = []
    begin = done = 0  # decoded from `begin` on; the text up to `done` is out
    for end in range(1, len(numbers) + 1):
        before = tokenizer.decode(numbers[begin:done])
        whole = tokenizer.decode(numbers[begin:end])
        if whole.endswith("\ufffd") and end < len(numbers):
            texts.append("")
            continue
        texts.append(whole[len(before) :] if whole.startswith(before) else whole)
        begin, done = max(0, min(done, end - _BEFORE)), end
    return texts
