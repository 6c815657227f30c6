"""What users say of themselves, or a back office for them: preferences and devices, by the same rules on both APIs."""
