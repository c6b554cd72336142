"""Small objectives as several libraries write them: half of them right, half with one planted mistake."""
