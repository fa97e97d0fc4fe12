#include "base/bell.h"

#include "base/perturb.h"

void tt_bell_init(struct tt_bell *self) {
    atomic_init(&self->looks_at, INT64_MIN);
    tt_parker_init(&self->parker);
}

/* Arming and ringing are read-modify-writes of one word: whichever comes second sees the other, so
 * either the sleeper finds what was made visible, or the ringer sees when it sleeps until. */

void tt_bell_arm(struct tt_bell *self, int64_t until_at) {
    tt_perturb();
    atomic_exchange_explicit(&self->looks_at, until_at, memory_order_acq_rel);
    tt_perturb();
}

void tt_bell_disarm(struct tt_bell *self) {
    atomic_exchange_explicit(&self->looks_at, INT64_MIN, memory_order_acq_rel);
}

void tt_bell_wait(struct tt_bell *self, int64_t until_at) {
    tt_parker_sleep(&self->parker, until_at);
    tt_bell_disarm(self);
}

void tt_bell_ring(struct tt_bell *self, int64_t due_at) {
    tt_perturb();
    int64_t looks_at = atomic_fetch_add_explicit(&self->looks_at, 0, memory_order_acq_rel);
    if (looks_at > due_at)
        tt_parker_unpark(&self->parker);
}
