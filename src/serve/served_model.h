/* A model version as it was loaded: what its engine and its domain need to serve it.
 *
 * Life: made from what the repository says, filled when the engine has loaded it, placed in a
 * domain (tt_serving_place), shown to the ports in a catalogue. Loading a model anew makes another
 * one beside it; the old one finishes what it has. Whoever may still bring it a request holds a
 * reference: its owner, each catalogue that shows it, each port's lane. When the last is gone,
 * `unused` tells whoever takes it out of its domain and frees it; without one it is freed then and
 * there, out of its domain already. Nothing in it changes while a port may see it. */
#ifndef TT_SERVE_SERVED_MODEL_H
#define TT_SERVE_SERVED_MODEL_H

#include "base/list.h"
#include "base/refcount.h"
#include "core/step_model.h"
#include "engine/cell_slots.h"
#include "engine/engine.h"
#include "model/cells/cells.h"
#include "serve/blank_rows.h"
#include "serve/model_stats.h"
#include "serve/short_runs.h"

struct tt_domain;
struct tt_input_ring;

/* What a model is to be served as. Strings are the caller's until tt_served_model_new returns. */
struct tt_served_model_spec {
    const char *name;
    const char *version;
    const char *platform;
    const char *config_json;
    int64_t slo_ns; /* TT_NEVER: none */
    int64_t window_ns;
    int32_t preferred_count;
    const int32_t *preferred;
    int32_t class_count; /* length classes, ascending */
    const int32_t *classes;
    bool pad;               /* dimension 1, to the longest of the batch or its class */
    int32_t priority_count; /* levels 1 (most urgent) .. priority_count; 0: none */
    int32_t default_priority;
    const struct tt_queue_rule *rules; /* [priority_count + 1], [0] without levels; NULL: none */
    bool computes_late;                /* no rule gives up who misses its deadline */
    bool honours_timeout; /* a request's own timeout counts where no rule speaks of it */
    bool preserve_ordering;
    int32_t input_slots;          /* of the ring, where its policy waits for inputs; 0: as many as
                                     usual */
    struct tt_model_stats *stats; /* to go on with, a reference of the caller's; NULL: new */
};

struct tt_served_model;
typedef void tt_served_model_unused_fn(void *context, struct tt_served_model *model);

/* Of a model of cells. */
struct tt_served_cells {
    struct tt_cells *cells;     /* owned */
    struct tt_cell_slots slots; /* the scheduler's */
    bool by_cell;               /* its policy works by cells; else by sequences, */
    bool by_step; /* L6: which it takes cell by cell: each type is a recurrent block */
    int32_t output_quantiles[TT_QUANTILES]; /* by step: the cells', or the most that there can be */
};

struct tt_served_model {
    char *name, *version, *platform, *config_json;
    char *reason; /* why it does not serve; NULL when it does */
    struct tt_engine_model *engine_model;
    struct tt_signature *signature;        /* as clients see it; inputs in the engine's order */
    int32_t shown_outputs[TT_MAX_TENSORS]; /* the engine's index of each output in it */
    struct tt_served_cells *cells;         /* NULL: one graph; owned */
    struct tt_profile *profile;            /* owned; of the whole */
    struct tt_profile **step_profiles;     /* owned; [step_count], or NULL: the whole's for all */
    struct tt_step *steps;                 /* [step_count] */
    struct tt_step_model step_model;
    int32_t *preferred, *classes;
    int32_t class_count;
    int32_t priority_count, default_priority;
    struct tt_queue_rule *rules; /* [priority_count + 1]; NULL: none are kept */
    bool honours_timeout, preserve_ordering;
    int32_t input_slots;             /* asked for; 0: as many as usual */
    struct tt_blank_rows blank;      /* the scheduler's: what batches are filled up with */
    struct tt_input_ring *inputs;    /* owned; NULL: its policy does not wait for inputs */
    struct tt_short_runs short_runs; /* the scheduler's */
    int32_t told_stage_slots;        /* the scheduler's: of stats->stage_slots_used, its own */
    struct tt_list in_order; /* the scheduler's: inferences whose answers keep their order */
    bool pad;
    bool varies; /* some dimension beside the rows is the request's */
    struct tt_domain *domain;
    int32_t index; /* in the domain */
    struct tt_model_stats *stats;
    struct tt_refcount users;
    tt_served_model_unused_fn *unused; /* on the thread that let go last; NULL: free it */
    void *unused_context;
    struct tt_served_model *next; /* its owner's */
};

/* With one reference, the caller's. */
TT_MUST_CHECK enum tt_err tt_served_model_new(const struct tt_served_model_spec *spec,
                                              struct tt_served_model **out_model);
/* Once no reference is left: unloads it from its engine too. NULL-safe. */
void tt_served_model_free(struct tt_served_model *take_model);
struct tt_served_model *tt_served_model_ref(struct tt_served_model *self);
void tt_served_model_unref(struct tt_served_model *take_self); /* NULL-safe */
/* Takes over the loaded engine model and its profiles, also on failure: it can serve once a domain
 * has it. `take_step_profiles`: malloc'ed, one per step of the engine model; NULL: nothing is known
 * of steps, and each is taken for as long as the whole. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_served_model_loaded(struct tt_served_model *self,
                                                 struct tt_engine_model *take_engine_model,
                                                 struct tt_profile *take_profile,
                                                 struct tt_profile **take_step_profiles);
/* Shows clients what the configuration tells them of the loaded model: its outputs only, in its
 * order (a shorter list hides the others), and its dimensions where the engine leaves them free.
 * INVALID: a tensor that the engine does not have so. */
TT_MUST_CHECK enum tt_err tt_served_model_narrow(struct tt_served_model *self,
                                                 const struct tt_signature *told,
                                                 struct tt_error *why);
/* The level that a request which asks for `asked` gets: 0 where the model has none, the default for
 * one that it does not have. */
int32_t tt_served_model_priority(const struct tt_served_model *self, int32_t asked);
void tt_served_model_unavailable(struct tt_served_model *self, const char *reason);
static inline bool tt_served_model_ready(const struct tt_served_model *self) {
    return self->reason == NULL && self->domain != NULL;
}

#endif
