#!/usr/bin/env bash
# Runs a command without address-space randomisation where that is allowed: ThreadSanitizer's shadow memory does not
# fit beside the widely spread mappings of recent kernels.
if setarch "$(uname -m)" -R true 2>/dev/null; then
  exec setarch "$(uname -m)" -R "$@"
fi
exec "$@"
