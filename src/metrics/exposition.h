/* The text format 0.0.4 of Prometheus: how a family's head, its labels and its samples are written.
 *
 * A sample is written in three steps: _begin() with the family's name and a suffix, one call per
 * label, and _integer(), _real() or _seconds(), which end the line. Another order is a bug. The
 * functions append to a text and keep no state but that. Implemented in exposition.c. */
#ifndef TT_METRICS_EXPOSITION_H
#define TT_METRICS_EXPOSITION_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_exposition {
    struct tt_text *text; /* borrowed */
    bool in_sample;       /* between _begin() and the value */
    bool has_labels;      /* of the sample that is being written */
};

/* `type`: "counter", "gauge" or "histogram". */
void tt_exposition_family(struct tt_exposition *self, const char *name, const char *type,
                          const char *help);
/* `suffix`: "" or "_bucket", "_sum", "_count". */
void tt_exposition_begin(struct tt_exposition *self, const char *name, const char *suffix);
/* Any text is a legal value. */
void tt_exposition_label(struct tt_exposition *self, const char *label, const char *value);
void tt_exposition_label_integer(struct tt_exposition *self, const char *label, int64_t value);
void tt_exposition_integer(struct tt_exposition *self, int64_t value);
/* With nine significant digits. */
void tt_exposition_real(struct tt_exposition *self, double value);
/* To the nanosecond. */
void tt_exposition_seconds(struct tt_exposition *self, double value);

#endif
