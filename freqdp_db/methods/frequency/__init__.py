"""The paper's own methods: perturb how often places are visited, and edit until that holds."""
