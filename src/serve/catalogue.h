/* A catalogue: what the server knows of its repository at one moment, that is every model version,
 * whether it serves, and if not, why. A board: where the newest catalogue is shown.
 *
 * Life of a catalogue: made by one thread (_new(), _add() per entry, in any order), sorted by
 * _seal(), published on the board, and never changed. A change of the models publishes another one.
 * Ports hold a reference to the one that they read last, and through it to its models, so that a
 * look-up takes no lock, and a replaced model goes away when its last user has moved on.
 *
 * Implemented in catalogue.c. */
#ifndef TT_SERVE_CATALOGUE_H
#define TT_SERVE_CATALOGUE_H

#include "base/err.h"
#include "base/threads/counter.h"
#include "base/threads/lock.h"
#include "base/threads/refcount.h"

struct tt_model_stats;
struct tt_served_model;

enum tt_model_state {
    TT_MODEL_KNOWN, /* in the repository; never requested */
    TT_MODEL_LOADING,
    TT_MODEL_READY,
    TT_MODEL_UNLOADING, /* no new requests; the last ones finish */
    TT_MODEL_UNAVAILABLE,
};
/* "READY" and so on; "" for KNOWN. */
const char *tt_model_state_name(enum tt_model_state state);

struct tt_catalogue_entry {
    char *name;
    char *version; /* "": unknown */
    enum tt_model_state state;
    char *reason;                  /* "": none */
    bool is_wanted;                /* the model was loaded, or should be */
    struct tt_served_model *model; /* while READY; a reference */
    struct tt_model_stats *stats;  /* NULL: it was never loaded; a reference */
};

/* As clients see it: a model that is held is UNAVAILABLE. Both may change at any time. */
enum tt_model_state tt_catalogue_state(const struct tt_catalogue_entry *entry);
const char *tt_catalogue_reason(const struct tt_catalogue_entry *entry);

struct tt_catalogue {
    struct tt_refcount users;
    int32_t count, capacity;
    struct tt_catalogue_entry *entries; /* by name, then by version, the highest first */
};

/* With one reference, the caller's. NULL: out of memory. */
struct tt_catalogue *tt_catalogue_new(int32_t capacity);
/* Copies the strings and takes references of its own. At most `capacity` times. Errors: NO_MEMORY.
 */
TT_MUST_CHECK enum tt_err tt_catalogue_add(struct tt_catalogue *self,
                                           const struct tt_catalogue_entry *entry);
void tt_catalogue_seal(struct tt_catalogue *self);
/* Asserts the order of a sealed catalogue, and that a version has a model exactly while READY. */
void tt_catalogue_check(const struct tt_catalogue *self);
/* NULL-safe. The catalogue is constant but for the count of its users. */
struct tt_catalogue *tt_catalogue_ref(const struct tt_catalogue *self);
void tt_catalogue_unref(struct tt_catalogue *take_self); /* NULL-safe */

/* What a sealed catalogue serves, by model: one that is wanted is missing while no version serves
 * and none is being loaded. */
struct tt_catalogue_sums {
    int32_t served, missing;
};
struct tt_catalogue_sums tt_catalogue_sums(const struct tt_catalogue *self);
/* The first entry (the highest version) of the name, and how many it has; NULL: no such name. */
const struct tt_catalogue_entry *tt_catalogue_find(const struct tt_catalogue *self,
                                                   const char *name, int32_t *out_count);

struct tt_catalogue_board {
    struct tt_lock lock;
    struct tt_catalogue *catalogue; /* a reference; NULL: none yet */
    struct tt_counter generation;   /* of the catalogue; grows with each publication */
};
void tt_catalogue_board_init(struct tt_catalogue_board *self);
void tt_catalogue_board_fini(struct tt_catalogue_board *self);
/* Shows the (sealed) catalogue from now on. One thread at a time. */
void tt_catalogue_board_publish(struct tt_catalogue_board *self,
                                struct tt_catalogue *take_catalogue);
/* True: a newer catalogue than that of `generation` is shown. Any thread; takes no lock. */
static inline bool tt_catalogue_board_has_newer(const struct tt_catalogue_board *self,
                                                int64_t generation) {
    return tt_counter_get(&self->generation) != generation;
}
/* A new reference to the newest one (NULL: none yet), and its generation. Any thread. */
struct tt_catalogue *tt_catalogue_board_get(struct tt_catalogue_board *self,
                                            int64_t *out_generation);

#endif
