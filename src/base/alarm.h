/* The instant at which a sleeping thread must look, set by others while it sleeps.
 *
 * Many set it, one at a time (who holds a baton, say); one lies down until then. A setter learns
 * whether the sleeper would oversleep the new instant and must be woken; one that moved into the
 * future costs nobody a wake: the sleeper gets up at the old one, looks at the new one, and lies
 * down again. `sleeps_until` is INT64_MIN while the sleeper is awake, since it will look by itself
 * before it lies down. */
#ifndef TT_BASE_ALARM_H
#define TT_BASE_ALARM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_alarm {
    _Atomic int64_t due_at, sleeps_until;
};

static inline void tt_alarm_init(struct tt_alarm *self) {
    atomic_init(&self->due_at, INT64_MAX);
    atomic_init(&self->sleeps_until, INT64_MIN);
}
/* Sets when; true: the sleeper would oversleep it and must be woken. */
static inline bool tt_alarm_set(struct tt_alarm *self, int64_t due_at) {
    atomic_store(&self->due_at, due_at);
    return due_at < atomic_load(&self->sleeps_until);
}
static inline int64_t tt_alarm_due_at(const struct tt_alarm *self) {
    return atomic_load(&self->due_at);
}
/* The sleeper, before it sleeps: until when. */
static inline int64_t tt_alarm_lie_down(struct tt_alarm *self) {
    int64_t due_at = atomic_load(&self->due_at), seen;
    do {
        seen = due_at;
        atomic_store(&self->sleeps_until, seen);
        due_at = atomic_load(&self->due_at);
    } while (due_at != seen);
    return seen;
}
static inline void tt_alarm_get_up(struct tt_alarm *self) {
    atomic_store(&self->sleeps_until, INT64_MIN);
}

#endif
