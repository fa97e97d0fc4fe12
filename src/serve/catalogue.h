/* What the server knows of its repository at one moment: every model version, whether it serves,
 * and if not, why.
 *
 * A catalogue is made by one thread (`_new`, `_add` per entry, in any order), sorted by `_seal`,
 * and never changes afterwards: whoever changes the set of models publishes another one
 * (tt_serving_publish). Ports hold a reference to the one that they last saw, and through it to its
 * models, so that looking a model up takes no lock, and a model that was replaced goes away when
 * the last who may use it has moved on. */
#ifndef TT_SERVE_CATALOGUE_H
#define TT_SERVE_CATALOGUE_H

#include "base/err.h"
#include "base/refcount.h"
#include "serve/model_stats.h"

struct tt_served_model;

enum tt_model_state {
    TT_MODEL_KNOWN, /* it lies in the repository; nobody has asked for it */
    TT_MODEL_LOADING,
    TT_MODEL_READY,
    TT_MODEL_UNLOADING, /* no new requests; the last are being finished */
    TT_MODEL_UNAVAILABLE,
};
/* "READY" and so on; "" for KNOWN. */
const char *tt_model_state_name(enum tt_model_state state);

struct tt_catalogue_entry {
    char *name;
    char *version; /* "": none is known */
    enum tt_model_state state;
    char *reason;                  /* "" where there is nothing to say */
    struct tt_served_model *model; /* while READY; a reference */
    struct tt_model_stats *stats;  /* NULL where it was never loaded; a reference */
};

struct tt_catalogue {
    struct tt_refcount users;
    int32_t count, capacity;
    struct tt_catalogue_entry *entries; /* by name, then version, the highest first */
};

/* With one reference, the caller's. NULL when memory is out. */
struct tt_catalogue *tt_catalogue_new(int32_t capacity);
/* Copies the strings and takes references of its own. NO_MEMORY. At most `capacity` times. */
TT_MUST_CHECK enum tt_err tt_catalogue_add(struct tt_catalogue *self,
                                           const struct tt_catalogue_entry *entry);
void tt_catalogue_seal(struct tt_catalogue *self);
struct tt_catalogue *tt_catalogue_ref(struct tt_catalogue *self);
void tt_catalogue_unref(struct tt_catalogue *take_self); /* NULL-safe */

/* The first entry (the highest version) of the name, and how many it has; NULL: no such name. */
const struct tt_catalogue_entry *tt_catalogue_find(const struct tt_catalogue *self,
                                                   const char *name, int32_t *out_count);

#endif
