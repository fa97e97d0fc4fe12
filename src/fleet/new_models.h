/* What clients ask a cluster to load or unload, by name: which model of a scheduler's table it is.
 *
 * A model that serves, or is to be unloaded, is one of the table. Before a load the scheduler's own
 * server loads the model, since its repository says what the model is now: its versions, limits,
 * objective and profile. If that is no model of the table it comes to it (fleet/fleet_models.h),
 * and all nodes get notice of it. If the repository lacks it, what peers gave notice of counts. The
 * wish then goes on with the model's number (cluster/model_set.h).
 *
 * Life of a wish: _wish, it waits -> the server of this process loads the model -> `resolved`, or
 * `refused` with the reason. They are carried out one by one, in their order. One thread, the
 * node's. Implemented in new_models.c. */
#ifndef TT_FLEET_NEW_MODELS_H
#define TT_FLEET_NEW_MODELS_H

#include "base/err.h"
#include "fleet/fleet_models.h"
#include "fleet/model_notice.h"

struct tt_port;

enum { TT_NEW_MODELS_WISHES = 32 };

struct tt_new_model_wish {
    uint64_t number, epoch; /* the frontend's; of the primary that it was sent to */
    uint16_t frontend;
    bool is_load;
    char name[TT_MODEL_NOTICE_TEXT_BYTES];
};

struct tt_new_models {
    struct tt_fleet_models *models; /* borrowed, as the port is */
    struct tt_port *port;
    struct tt_new_model_wish wishes[TT_NEW_MODELS_WISHES]; /* a ring; the first is carried out */
    int32_t first, count;
    bool is_loading;
    void *context;
    /* A model of this name serves in the cluster. */
    bool (*serves)(void *context, const char *name);
    /* The name is that of a group. Models may have come that the settings do not have yet. */
    void (*resolved)(void *context, const struct tt_new_model_wish *wish, int32_t group);
    void (*refused)(void *context, const struct tt_new_model_wish *wish, enum tt_err err,
                    const char *why);
};

/* A client wishes to load or unload the model of this name, `length` bytes that another node sent.
 * It is `refused` at once if the name is none, or too many wait. */
void tt_new_models_wish(struct tt_new_models *self, struct tt_new_model_wish wish,
                        const uint8_t *name, size_t length);
/* Once per turn of the node, after the port was drained. */
void tt_new_models_settle(struct tt_new_models *self);

#endif
