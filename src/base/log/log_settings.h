/* Which log lines are wanted: set when the server starts, changed while it runs, read before each
 * line. Any thread; a change is seen soon, not at once. All functions are inline; there is no .c
 * file. */
#ifndef TT_BASE_LOG_SETTINGS_H
#define TT_BASE_LOG_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum tt_log_level { TT_LOG_ERROR, TT_LOG_WARNING, TT_LOG_INFO, TT_LOG_LEVELS };

struct tt_log_settings {
    _Atomic bool on[TT_LOG_LEVELS];
    _Atomic uint32_t verbose; /* lines of verbose level 1 .. verbose are wanted */
    _Atomic bool is_iso8601;  /* how instants are written; else the default form */
};

static inline void tt_log_settings_init(struct tt_log_settings *self) {
    for (int level = 0; level < TT_LOG_LEVELS; level++)
        atomic_init(&self->on[level], true);
    atomic_init(&self->verbose, 0);
    atomic_init(&self->is_iso8601, false);
}
static inline bool tt_log_settings_on(const struct tt_log_settings *self, enum tt_log_level level) {
    return atomic_load_explicit(&self->on[level], memory_order_relaxed);
}
static inline void tt_log_settings_switch(struct tt_log_settings *self, enum tt_log_level level,
                                          bool on) {
    atomic_store_explicit(&self->on[level], on, memory_order_relaxed);
}
static inline uint32_t tt_log_settings_verbose(const struct tt_log_settings *self) {
    return atomic_load_explicit(&self->verbose, memory_order_relaxed);
}
static inline void tt_log_settings_set_verbose(struct tt_log_settings *self, uint32_t level) {
    atomic_store_explicit(&self->verbose, level, memory_order_relaxed);
}
static inline bool tt_log_settings_iso8601(const struct tt_log_settings *self) {
    return atomic_load_explicit(&self->is_iso8601, memory_order_relaxed);
}
static inline void tt_log_settings_set_iso8601(struct tt_log_settings *self, bool on) {
    atomic_store_explicit(&self->is_iso8601, on, memory_order_relaxed);
}

#endif
