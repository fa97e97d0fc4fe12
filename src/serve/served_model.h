/* A model version as it was loaded: what its engine and its domain need to serve it.
 *
 * Life: made from what the repository says, filled when the engine has loaded it, placed in a
 * domain (tt_serving_place()), and shown to the ports in a catalogue. Loading a model again makes
 * another one beside it; the old one finishes its requests. Whatever may still bring it a request
 * holds a reference: its owner, each catalogue that shows it, each port's lane. When the last
 * reference is gone, `unused` is called; its owner then takes it out of its domain and frees it.
 * Without `unused` it is freed at once. Nothing in it changes while a port may see it.
 *
 * Connections use the functions of the first part only. Implemented in served_model.c; its members
 * are in served_model_state.h. */
#ifndef TT_SERVE_SERVED_MODEL_H
#define TT_SERVE_SERVED_MODEL_H

#include "base/err.h"
#include "base/text.h"
#include "core/tensor.h"
#include "core/token_slo.h"

struct tt_engine_model;
struct tt_ensemble;
struct tt_model_stats;
struct tt_profile;
struct tt_queue_rule;
struct tt_served_model;
struct tt_tensor_view;

/* ---- what connections ask ---- */

const struct tt_signature *tt_served_model_signature(const struct tt_served_model *model);
const char *tt_served_model_name(const struct tt_served_model *model);
const char *tt_served_model_version(const struct tt_served_model *model);
const char *tt_served_model_platform(const struct tt_served_model *model); /* "onnxruntime_onnx" */
/* How it is served: the name of its policy ("auto (adaptive)" where auto chose it; "ensemble"), and
 * its objective (TT_NEVER: none). */
const char *tt_served_model_policy(const struct tt_served_model *model);
int64_t tt_served_model_slo_ns(const struct tt_served_model *model);
/* Seconds after which a rejected or dropped request may succeed; at least 1. */
int32_t tt_served_model_retry_after_s(const struct tt_served_model *model);
/* The output, as an index in its signature, of which a request's cells emit a row each; -1: none.
 */
int32_t tt_served_model_emitted(const struct tt_served_model *model);
/* One row of that output; `bytes` may be NULL. */
void tt_served_model_word(const struct tt_served_model *model, const void *bytes,
                          struct tt_tensor_view *out_view);
/* Appends the model's whole Triton configuration as JSON. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_served_model_config_json(const struct tt_served_model *model,
                                                      struct tt_text *out_json);

/* ---- its owner ---- */

/* How the model is to be served. Strings and arrays are borrowed until tt_served_model_new()
 * returns. */
struct tt_served_model_spec {
    const char *name;
    const char *version;
    const char *platform;
    const char *config_json;
    int64_t slo_ns; /* TT_NEVER: none */
    struct tt_token_slo tokens;
    int64_t window_ns;
    int32_t preferred_count;
    const int32_t *preferred;
    int32_t class_count; /* length classes, ascending */
    const int32_t *classes;
    bool pad;               /* dimension 1, to the longest of the batch or its class */
    int32_t priority_count; /* levels 1 (most urgent) .. priority_count; 0: none */
    int32_t default_priority;
    const struct tt_queue_rule *rules; /* [priority_count + 1], [0] without levels; NULL: none */
    bool computes_late;                /* no rule drops a request that misses its deadline */
    bool honours_timeout; /* a request's own timeout counts where no rule mentions it */
    bool preserve_ordering;
    int32_t input_slots; /* of the input ring, where its policy waits for inputs; 0: the default */
    int64_t max_run_ns;  /* a batch that runs longer is stopped; 0: see tt_served_model_run_limit */
    struct tt_model_stats *stats; /* to continue, a reference of the caller's; NULL: new */
};

/* Called on the thread that drops the last reference. */
typedef void tt_served_model_unused_fn(void *context, struct tt_served_model *model);

/* With one reference, the caller's. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_served_model_new(const struct tt_served_model_spec *spec,
                                              struct tt_served_model **out_model);
/* No reference is left. Unloads it from its engine too. NULL-safe. */
void tt_served_model_free(struct tt_served_model *take_model);
struct tt_served_model *tt_served_model_ref(struct tt_served_model *self);
void tt_served_model_unref(struct tt_served_model *take_self); /* NULL-safe */
/* Takes over the loaded engine model and its profiles, also on failure; it can serve once a domain
 * has it. `take_step_profiles`: malloc'ed, one per step of the engine model; NULL: unknown, and
 * each step counts as long as the whole. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_served_model_loaded(struct tt_served_model *self,
                                                 struct tt_engine_model *take_engine_model,
                                                 struct tt_profile *take_profile,
                                                 struct tt_profile **take_step_profiles);
/* Replaces the profiles of a model that no domain has yet; arguments as above. It had none of
 * steps. */
void tt_served_model_set_profile(struct tt_served_model *self, struct tt_profile *take_profile,
                                 struct tt_profile **take_step_profiles);
/* L6: as steps of a model, a type's cells are rounds of a recurrent block. Sets the kinds and names
 * of `steps` [type_count], and what `step_model` says of all: its steps, its outputs' lengths, and
 * a largest batch that fits all types. Not for trees and plug-ins. */
struct tt_served_cells;
struct tt_step;
struct tt_step_model;
void tt_served_cells_as_blocks(struct tt_served_cells *by, struct tt_step *steps,
                               struct tt_step_model *step_model);
/* Makes it serve as the ensemble, which has this signature: nothing is loaded, and it belongs to no
 * domain. `free_ensemble` frees the ensemble with the model. */
void tt_served_model_compose(struct tt_served_model *self, const struct tt_signature *signature,
                             struct tt_ensemble *take_ensemble,
                             void (*free_ensemble)(struct tt_ensemble *take_ensemble));
/* Shows clients the configuration's view of the loaded model: its outputs only, in its order (a
 * shorter list hides the others), and its dimensions where the engine leaves them free. INVALID:
 * the engine has no such tensor. */
TT_MUST_CHECK enum tt_err tt_served_model_narrow(struct tt_served_model *self,
                                                 const struct tt_signature *configured,
                                                 struct tt_error *why);
/* The level of a request that asks for `asked`: 0 where the model has no levels, its default for a
 * level that it does not have. */
int32_t tt_served_model_priority(const struct tt_served_model *self, int32_t asked);
/* Out of memory, the previous reason stays. */
void tt_served_model_unavailable(struct tt_served_model *self, const char *reason);
bool tt_served_model_ready(const struct tt_served_model *self);
/* It is held (tt_serving_hold_model), or a model of the ensemble's is. Any thread. */
bool tt_served_model_is_held(const struct tt_served_model *self);
/* The maximum run time of a loaded model that states none: 100 times the longest that its profile
 * says, at least 10 s; at least 60 s where it has no profile, or runs sequences. */
int64_t tt_served_model_run_limit(const struct tt_served_model *self);

#endif
