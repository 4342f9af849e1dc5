#!/bin/sh
# The bootstrap of the function in streams.rs, which is in the executable of the test. Nobody writes this file while others are
# started, as would be in the way of one that the test made.
exec "$CONSUMER" --exact streams::consumer --ignored --nocapture
