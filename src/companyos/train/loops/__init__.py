"""Training loops: supervised fine-tuning, DAgger, GRPO, and TRL's own trainer."""
