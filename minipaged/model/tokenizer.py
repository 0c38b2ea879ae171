"""Byte-level BPE: text to token ids and back, through the `tokenizers` library.

Any text can be encoded, since every byte is a token; any ids can be decoded, a broken character becoming U+FFFD.
"""

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

EOS = "<|endoftext|>"


class Tokenizer:
    """Loads `tokenizer.json` from a path. Token ids run from 0 to vocab_size - 1; `eos_token_id` ends a text."""

    def __init__(self, path):
        self._bpe = tokenizers.Tokenizer.from_file(str(path))
        self.vocab_size = self._bpe.get_vocab_size()
        self.eos_token_id = self._bpe.token_to_id(EOS)

    def encode(self, text):
        """Text -> list of token ids. A user's "<|endoftext|>" is the end-of-text token, as in Hugging Face's
        classes."""
        return self._bpe.encode(text).ids

    def decode(self, token_ids):
        """Token ids -> text. The end of text is shown as nothing."""
        return self._bpe.decode(list(token_ids), skip_special_tokens=True)


def train_tokenizer(texts, vocab_size):
    """Learn a byte-level BPE of vocab_size tokens from an iterable of texts; token 0 is the end of text."""
    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[EOS], initial_alphabet=alphabet)
    )
    return bpe
