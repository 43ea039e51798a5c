"""autotvm: templates with knobs, tuned by the one engine."""
