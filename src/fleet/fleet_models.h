/* The models that a node of a cluster knows, by its own numbers.
 *
 * A node loads its repository as a server of one process does. The models that are ready then are
 * sorted by name and version and get the first numbers. Others come while it runs: a peer gives
 * notice of one (fleet/model_notice.h), or a scheduler loads one for a client. A model is never
 * taken out, so a number keeps its meaning; there is room for TT_FLEET_NEW_MODELS that come. A
 * model of cells is one of whole requests here: only the backend's policy sees its cells.
 *
 * Versions of one model are loaded together: they are a group, which has the number of the first.
 * The digest of a group is over what all nodes must agree upon. Nodes that disagree have different
 * models of one name, which never serve at the same time.
 *
 * Tensors travel in the order of their names, since engines and configurations may list them in
 * different orders. One thread, the node's. Implemented in fleet_models.c. */
#ifndef TT_FLEET_FLEET_MODELS_H
#define TT_FLEET_FLEET_MODELS_H

#include "core/step_model.h"
#include "core/tensor.h"

struct tt_model_notice;
struct tt_port;
struct tt_profile;
struct tt_served_model;

/* Models that may come to a node while it runs, and the rows of the largest batch that such a model
 * may have on a node whose own models have smaller ones. */
enum { TT_FLEET_NEW_MODELS = 256, TT_FLEET_NEW_ROWS = 128 };

struct tt_fleet_model {
    const struct tt_served_model *served; /* borrowed; NULL: it is not loaded */
    char *name, *version;
    const char *origin;         /* the node that gave notice of it; borrowed; NULL: this one */
    struct tt_profile *profile; /* by which it is scheduled here */
    struct tt_profile
        *slowest;        /* that and all that backends state; NULL: they do not take longer */
    uint64_t digest;     /* of the group */
    uint64_t definition; /* all that must stay the same here when it is loaded again; 0: unknown */
    struct tt_step step; /* the whole */
    struct tt_step_model whole; /* as schedulers see it: one step */
    /* The indices in the signature that clients see, by name; valid if it was loaded. */
    int32_t inputs[TT_MAX_TENSORS], outputs[TT_MAX_TENSORS];
};

struct tt_fleet_models {
    struct tt_fleet_model *models;            /* [capacity]; [count] are there */
    const struct tt_step_model **step_models; /* [capacity] */
    uint16_t *groups;                         /* [capacity] */
    int32_t count, capacity;
    int32_t max_rows; /* of a batch of any model */
    int32_t grants;   /* at once on a device: models that compose have profiles of so many tasks */
};

/* Reads the port's catalogue. Errors: NO_MEMORY; UNAVAILABLE: no model is ready;
 * INVALID: there are too many. */
TT_MUST_CHECK enum tt_err tt_fleet_models_init(struct tt_fleet_models *self, struct tt_port *port,
                                               int32_t grants, struct tt_error *why);
void tt_fleet_models_fini(struct tt_fleet_models *self);
/* The group of this name: the one that is loaded, else the latest; -1: there is none. */
int32_t tt_fleet_models_group(const struct tt_fleet_models *self, const char *name);
/* A group of the same name and another digest; -1: there is none. */
int32_t tt_fleet_models_rival(const struct tt_fleet_models *self, int32_t model);
/* What a notice to a peer says of the model; its texts and profile are borrowed from here. */
void tt_fleet_models_notice(const struct tt_fleet_models *self, int32_t model,
                            struct tt_model_notice *out_notice);
/* A peer gave notice of a model: its number here, which is `count` of before if it has come.
 * `origin` is borrowed. Errors: BUSY: there is no room; UNSUPPORTED: its batches are too large;
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_fleet_models_learn(struct tt_fleet_models *self,
                                                const struct tt_model_notice *notice,
                                                const char *origin, int32_t *out_number,
                                                struct tt_error *why);
/* How long the model takes by the notice's profile, in thousandths of the one by which it is
 * scheduled here: the largest of all batches and lengths. */
int32_t tt_fleet_models_pace(const struct tt_fleet_models *self, int32_t model,
                             const struct tt_model_notice *notice);
/* The notice is a backend's: `slowest` takes its profile into account. */
void tt_fleet_models_note_pace(struct tt_fleet_models *self, int32_t model,
                               const struct tt_model_notice *notice);
/* True: _adopt_slowest would change a profile. */
bool tt_fleet_models_has_slower(const struct tt_fleet_models *self);
/* Models are scheduled by `slowest` from now on. No policy may be reading their profiles. */
void tt_fleet_models_adopt_slowest(struct tt_fleet_models *self);
/* The server has just loaded the model of this name: its group, whose versions come if they are not
 * known. Errors: as _learn; UNAVAILABLE: no version is ready. */
TT_MUST_CHECK enum tt_err tt_fleet_models_take(struct tt_fleet_models *self, struct tt_port *port,
                                               const char *name, int32_t *out_group,
                                               struct tt_error *why);
/* The group was loaded, or loaded again. Errors: INVALID: what was loaded is another model of its
 * name, or a version came or went; it must be unloaded then. NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_fleet_models_loaded(struct tt_fleet_models *self, struct tt_port *port,
                                                 int32_t group, struct tt_error *why);
/* The group was unloaded: no request of it is left. */
void tt_fleet_models_unloaded(struct tt_fleet_models *self, int32_t group);
/* The model's number; -1: it is not one of them. */
int32_t tt_fleet_models_find(const struct tt_fleet_models *self,
                             const struct tt_served_model *served);
/* Asserts that numbers, groups and digests agree. */
void tt_fleet_models_check(const struct tt_fleet_models *self);
/* The indices of the tensors, by name. */
void tt_fleet_name_order(const struct tt_tensor_spec *specs, int32_t count, int32_t *out_order);

#endif
