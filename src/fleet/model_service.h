/* Loads and unloads the models of a node of a cluster, as the primary says
 * (cluster/model_duty.h), and takes the commands of its clients to the primary.
 *
 * A model is loaded and unloaded by the server of this process, as a client of its own would do it.
 * An unload ends when no request of the model is left. A model that was loaded must be what it was
 * when the node got notice of it, since all nodes agreed upon that; else it is unloaded again.
 *
 * A frontend passes a client's command on, and answers it when the primary does. If the primary
 * changes meanwhile, the client hears that its command may not have been carried out. Other nodes
 * refuse commands.
 *
 * One thread, the node's. Implemented in model_service.c. */
#ifndef TT_FLEET_MODEL_SERVICE_H
#define TT_FLEET_MODEL_SERVICE_H

#include "cluster/frontend.h"
#include "fleet/command_inbox.h"
#include "fleet/fleet_models.h"

enum { TT_MODEL_SERVICE_COMMANDS = 32 };

struct tt_model_service {
    struct tt_fleet_models *models;
    struct tt_model_duty *duty;
    struct tt_port *port;           /* borrowed */
    struct tt_command_inbox *inbox; /* borrowed */
    struct tt_frontend *frontend;   /* NULL: another role */
    struct tt_error *whys;          /* [models->capacity]: of the last load of each group */
    int32_t group;                  /* that is loaded or unloaded; -1: none */
    bool is_load, awaits_command, awaits_end;
    enum tt_err err; /* of the load that is undone */
    /* A group was loaded, or is not loaded any more. The owner sets it. */
    void (*changed)(void *context, int32_t group);
    void *context;
    /* Clients' commands that the primary knows of. */
    struct tt_model_command *commands[TT_MODEL_SERVICE_COMMANDS];
    uint64_t numbers[TT_MODEL_SERVICE_COMMANDS];
    uint64_t command_count, epoch; /* ever; of the primary that has them */
};

/* Sets the duty's `act`. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_service_init(struct tt_model_service *self,
                                                struct tt_fleet_models *models,
                                                struct tt_model_duty *duty, struct tt_port *port,
                                                struct tt_command_inbox *inbox,
                                                struct tt_frontend *frontend);
/* Commands that wait get an answer. The port's commands must be through: after tt_port_close(). */
void tt_model_service_fini(struct tt_model_service *self);
/* Once per turn of the node, after the port was drained. */
void tt_model_service_settle(struct tt_model_service *self);
/* A request has come for a model that the table does not have: the server may have loaded it, and
 * the end of the command be on its way. True: the table has it now. */
bool tt_model_service_adopt(struct tt_model_service *self, const struct tt_served_model *served);
/* The primary has answered a command. */
void tt_model_service_wished(struct tt_model_service *self, uint64_t number, uint16_t failure,
                             const char *text, size_t length);
/* The name in the command; "": it has ended. */
const char *tt_model_service_name(const struct tt_model_service *self, uint64_t number);
/* Why the group could not be loaded. */
const char *tt_model_service_reason(const struct tt_model_service *self, int32_t group);

#endif
