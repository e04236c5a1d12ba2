"""Small language models with Phalanx layers: what truncation costs a trained model. See docs/hybrids.md."""
