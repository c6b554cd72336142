"""Commands of older versions, and what to say of each."""

GONE = {
    "ladder": "ladder is now called ablation: bench ablation",
    "reference": "reference is now called baseline: bench baseline",
    "submit": "submit is gone: give others your results folder, which they check by: bench compare FOLDER --verify",
}
