/* A model version that the server knows: how it is configured, whether it serves, and its
 * statistics.
 *
 * Made while the server starts, from what the repository says; READY once the engine has loaded it
 * and a domain has taken it in, else UNAVAILABLE with its reason. Read by the ports' threads; the
 * statistics are written by the scheduler's thread alone. */
#ifndef TT_RT_SERVED_MODEL_H
#define TT_RT_SERVED_MODEL_H

#include "base/counter.h"
#include "core/step_model.h"
#include "engine/engine.h"

struct tt_domain;

enum { TT_BATCH_BUCKETS = 12 }; /* batches of <= 1, 2, 4 ... 1024, more */

struct tt_model_stats {
    struct tt_counter accepted; /* requests handed to the domain */
    struct tt_counter succeeded;
    struct tt_counter late;       /* of those, after their deadline */
    struct tt_counter dropped[5]; /* by tt_drop_reason */
    struct tt_counter failed, cancelled, rejected;
    struct tt_counter rows; /* computed */
    struct tt_counter batches;
    struct tt_counter batch_buckets[TT_BATCH_BUCKETS];  /* not cumulative */
    struct tt_counter request_ns, queue_ns, compute_ns; /* sums over the succeeded */
    struct tt_counter gathered_bytes;
};

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
};

struct tt_served_model {
    char *name, *version, *platform, *config_json;
    char *reason; /* why it does not serve; NULL when it does */
    struct tt_engine_model *engine_model;
    struct tt_signature *signature;        /* as clients see it; inputs in the engine's order */
    int32_t shown_outputs[TT_MAX_TENSORS]; /* the engine's index of each output in it */
    struct tt_profile *profile;            /* owned */
    struct tt_step step;
    struct tt_step_model step_model;
    int32_t *preferred, *classes;
    int32_t class_count;
    int32_t priority_count, default_priority;
    bool pad;
    bool varies; /* some dimension beside the rows is the request's */
    struct tt_domain *domain;
    int32_t index; /* in the domain */
    struct tt_model_stats stats;
    struct tt_served_model *next;  /* in the server: by name, then version, the highest first */
    struct tt_served_model *first; /* the highest version of this name */
};

TT_MUST_CHECK enum tt_err tt_served_model_new(const struct tt_served_model_spec *spec,
                                              struct tt_served_model **out_model);
/* Unloads it from its engine too. */
void tt_served_model_free(struct tt_served_model *take_model);
/* Takes over the loaded engine model and the profile: it can serve once a domain has it. */
void tt_served_model_loaded(struct tt_served_model *self, struct tt_engine_model *take_engine_model,
                            struct tt_profile *take_profile);
/* Shows clients what the configuration tells them of the loaded model: its outputs only, in its
 * order (a shorter list hides the others), and its dimensions where the engine leaves them free.
 * INVALID: a tensor that the engine does not have so. */
TT_MUST_CHECK enum tt_err tt_served_model_narrow(struct tt_served_model *self,
                                                 const struct tt_signature *told,
                                                 struct tt_message *why);
/* The level that a request which asks for `asked` gets: 0 where the model has none, the default for
 * one that it does not have. */
int32_t tt_served_model_priority(const struct tt_served_model *self, int32_t asked);
void tt_served_model_unavailable(struct tt_served_model *self, const char *reason);
static inline bool tt_served_model_ready(const struct tt_served_model *self) {
    return self->reason == NULL && self->domain != NULL;
}

#endif
