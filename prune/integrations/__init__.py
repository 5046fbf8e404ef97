"""Hooks of trainers. Each module is imported by whoever uses it, and brings its stack in only then.

background.py the work behind a training · torch.py plain PyTorch, DCP, Accelerate · transformers.py the Hugging Face
Trainer · lightning.py PyTorch Lightning · ranks.py several processes that write one checkpoint
"""
