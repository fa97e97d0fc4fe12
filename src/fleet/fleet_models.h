/* The models that all nodes of a cluster serve, by number.
 *
 * A node loads its repository as a server of one process does. The models that are ready then are
 * sorted by name and version; the place of a model is its number in frames. The digest is over what
 * the nodes must agree upon; nodes with different digests refuse each other. Models of cells are
 * left out: they run in one process only.
 *
 * Models may be unloaded and loaded again while the node runs (fleet/model_service.h); their
 * numbers and definitions stay. Versions of one model are loaded together: they are a group, which
 * has the number of the first.
 *
 * Tensors travel in the order of their names, since engines and configurations may list them in
 * different orders. Implemented in fleet_models.c. */
#ifndef TT_FLEET_FLEET_MODELS_H
#define TT_FLEET_FLEET_MODELS_H

#include "core/step_model.h"
#include "core/tensor.h"

struct tt_port;
struct tt_profile;
struct tt_served_model;

struct tt_fleet_model {
    const struct tt_served_model *served; /* borrowed; NULL: it is not loaded */
    char *name, *version;
    struct tt_profile *profile;
    uint64_t definition;        /* all that must stay the same when it is loaded again */
    struct tt_step step;        /* the whole */
    struct tt_step_model whole; /* as schedulers see it: one step */
    /* The indices in the signature that clients see, by name. */
    int32_t inputs[TT_MAX_TENSORS], outputs[TT_MAX_TENSORS];
};

struct tt_fleet_models {
    struct tt_fleet_model *models;            /* [count] */
    const struct tt_step_model **step_models; /* [count] */
    uint16_t *groups;                         /* [count] */
    int64_t capacity;
    int32_t count;
    uint64_t digest;
    bool failed; /* out of memory */
};

/* Reads the port's catalogue. Errors: NO_MEMORY; UNAVAILABLE: no model of one graph is ready. */
TT_MUST_CHECK enum tt_err tt_fleet_models_init(struct tt_fleet_models *self, struct tt_port *port,
                                               struct tt_error *why);
void tt_fleet_models_fini(struct tt_fleet_models *self);
/* The group of this name; -1: there is none. */
int32_t tt_fleet_models_group(const struct tt_fleet_models *self, const char *name);
/* The group was loaded, or loaded again. Errors: INVALID: its definition is another one, or a
 * version came or went; it must be unloaded then. */
TT_MUST_CHECK enum tt_err tt_fleet_models_loaded(struct tt_fleet_models *self, struct tt_port *port,
                                                 int32_t group, struct tt_error *why);
/* The group was unloaded: no request of it is left. */
void tt_fleet_models_unloaded(struct tt_fleet_models *self, int32_t group);
/* The model's number; -1: it is not one of them. */
int32_t tt_fleet_models_find(const struct tt_fleet_models *self,
                             const struct tt_served_model *served);
/* The indices of the tensors, by name. */
void tt_fleet_name_order(const struct tt_tensor_spec *specs, int32_t count, int32_t *out_order);

#endif
