"""The activation layers: functions of one tensor, most without parameters."""
