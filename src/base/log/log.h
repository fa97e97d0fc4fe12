/* Log lines for the server's operators; all lines go through here.
 *
 * A line has a level, an instant, a text, and, if it is about one request, that request's id. It
 * never has the content of tensors. Lines are for rare events; code on the path of every request
 * checks `tt_log_wants_verbose` first, which is a load. Each line is one write. `tt_log_limited`
 * writes what may repeat: beyond ten lines of one kind (the same format string) in a second the
 * rest are left out, and the next line of the kind says how many. So a fault of every request does
 * not bury other lines.
 *
 * Forms: default `I1121 17:30:05.123456 4711] text`, ISO 8601 `2026-11-21T17:30:05Z I 4711] text`,
 * or with `is_json` an object per line with `time`, `level`, `pid`, `message` and `request_id`. The
 * first two follow the settings, which clients may change (Triton's /v2/logging). Implemented in
 * log.c. */
#ifndef TT_BASE_LOG_H
#define TT_BASE_LOG_H

#include "base/err.h"
#include "base/instant.h"
#include "base/log/log_settings.h"
#include "base/threads/lock.h"

enum { TT_LOG_KINDS = 64, TT_LOG_PER_SECOND = 10 };

struct tt_log_kind {
    const char *format; /* NULL: free */
    int64_t since_at;   /* the second that is counted */
    int32_t written, left_out;
};

struct tt_log {
    struct tt_log_settings settings;
    int fd;       /* not owned */
    bool is_json; /* set once, before it is used */
    struct tt_lock lock;
    struct tt_log_kind kinds[TT_LOG_KINDS];
};

void tt_log_init(struct tt_log *self, int fd, bool is_json);
void tt_log_fini(struct tt_log *self);
/* Any thread. `request_id` may be NULL or "". A NULL log is silent. */
void tt_log_write(struct tt_log *self, enum tt_log_level level, const char *request_id,
                  const char *format, ...) TT_PRINTF(4, 5);
/* The same for lines that may repeat. `format` is a literal: it identifies the kind. */
void tt_log_limited(struct tt_log *self, enum tt_log_level level, const char *request_id,
                    const char *format, ...) TT_PRINTF(4, 5);
/* A line that is written also if the level is switched off: for what clients that switch it must
 * not hide. `is_limited`: as tt_log_limited(), else whatever comes. */
void tt_log_always(struct tt_log *self, enum tt_log_level level, bool is_limited,
                   const char *format, ...) TT_PRINTF(4, 5);
/* True if lines of this verbose level (from 1) are wanted. */
static inline bool tt_log_wants_verbose(const struct tt_log *self, uint32_t level) {
    return self && tt_log_settings_verbose(&self->settings) >= level;
}
/* A line of that verbose level, which is wanted; it is never left out. */
void tt_log_verbose(struct tt_log *self, uint32_t level, const char *request_id, const char *format,
                    ...) TT_PRINTF(4, 5);

#endif
