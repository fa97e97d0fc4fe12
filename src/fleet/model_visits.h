/* What visitors ask a node about models: `tutti cluster load`, `unload`, and how far they are.
 *
 * Lines (fleet/visit.h), and the answers, JSON objects:
 *   "load NAME", "unload NAME"   {"command": its number}; a frontend only
 *   "command NUMBER"             {"state": "UNDER_WAY", "DONE" or "FAILED", "reason": ...}
 *   "model NAME"                 {"name", "role", "state", "wanted", "reason"}: what this node has
 * of the model, and whether it should (null: it has no orders)
 *
 * Life of a command: it takes the way of a client's (fleet/model_service.h), so the primary carries
 * it out at all nodes; its end is kept until TT_MODEL_VISITS later ones have come.
 *
 * One thread, the node's. Implemented in model_visits.c. */
#ifndef TT_FLEET_MODEL_VISITS_H
#define TT_FLEET_MODEL_VISITS_H

#include "base/text.h"
#include "fleet/model_service.h"

enum { TT_MODEL_VISITS = 16, TT_MODEL_VISIT_BYTES = 1024 };

struct tt_model_visit {
    uint64_t number; /* 0: none */
    bool is_ended;
    enum tt_err err;
    char text[TT_MODEL_VISIT_BYTES];
};

struct tt_model_visits {
    struct tt_model_service *service; /* borrowed; NULL: the role is closed */
    struct tt_command_box box;
    struct tt_model_controller controller;
    struct tt_model_visit visits[TT_MODEL_VISITS];
    uint64_t count; /* ever */
};

/* `wake`: of the node. */
void tt_model_visits_init(struct tt_model_visits *self, struct tt_model_service *service,
                          void (*wake)(void *context), void *context);
/* All commands have ended: after the role was closed. */
void tt_model_visits_fini(struct tt_model_visits *self);
/* The node is `name`. NOT_FOUND: the line is about something else, and `why` is not set. Errors:
 * UNSUPPORTED: another role; BUSY; INVALID; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_visits_answer(struct tt_model_visits *self, const char *name,
                                                 const char *role, const char *line,
                                                 struct tt_text *out_answer, struct tt_error *why);

#endif
