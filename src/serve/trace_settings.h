/* What is to be traced: settings that clients read and change while the server runs, for all
 * models, and for single ones where they differ.
 *
 * The protocol has clients change and ask for them, so they are kept and told. Nobody traces single
 * requests into a file by them: what the server did with all of them is GET /v2/debug/trace
 * (record/trace.h), which needs no setting. Any thread may call anything here. */
#ifndef TT_SERVE_TRACE_SETTINGS_H
#define TT_SERVE_TRACE_SETTINGS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_TRACE_TIMESTAMPS = 1, TT_TRACE_TENSORS = 2 }; /* bits of `levels`; 0 is OFF */

struct tt_trace_setting {
    uint32_t levels;
    int64_t rate;          /* one request of so many is traced; >= 1 */
    int64_t count;         /* so many traces are left to be made; -1: no end */
    int64_t log_frequency; /* 0: one file; else a new one after so many traces */
};

/* A change: each member with its bit in `sets`, or in `clears` (back to the setting of all models,
 * or for these to where the server began). */
enum {
    TT_TRACE_LEVELS = 1,
    TT_TRACE_RATE = 2,
    TT_TRACE_COUNT = 4,
    TT_TRACE_LOG_FREQUENCY = 8,
};
struct tt_trace_change {
    uint32_t sets, clears;
    struct tt_trace_setting values;
};

struct tt_trace_settings;
/* NO_MEMORY. With the server's own beginning: OFF, rate 1000, no end. */
TT_MUST_CHECK enum tt_err tt_trace_settings_new(const struct tt_trace_setting *beginning,
                                                struct tt_trace_settings **out_self);
extern const struct tt_trace_setting tt_trace_setting_default;
void tt_trace_settings_free(struct tt_trace_settings *take_self); /* NULL-safe */
/* `model` NULL: of all. */
void tt_trace_settings_get(struct tt_trace_settings *self, const char *model,
                           struct tt_trace_setting *out_setting);
/* NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_trace_settings_change(struct tt_trace_settings *self,
                                                   const char *model,
                                                   const struct tt_trace_change *change);

#endif
