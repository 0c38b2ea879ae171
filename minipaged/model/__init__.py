"""The tiny GPT: its forward passes, its tokenizer, its weights and how they were trained."""
