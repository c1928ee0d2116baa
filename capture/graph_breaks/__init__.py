"""Graph breaks: functions that cannot be traced whole run as compiled subgraphs."""
