"""The paper's study: what has to be run, where it runs, and what it shows beside the paper."""
