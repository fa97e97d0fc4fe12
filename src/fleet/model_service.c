#include "fleet/model_service.h"

#include "fleet/model_notice.h"
#include "serve/served_model_state.h"
#include "serve/serving.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

/* ---- what the primary says ---- */

static void on_commanded(void *context, struct tt_model_command *command);

static void command(struct tt_model_service *self, bool is_load) {
    struct tt_model_command *command;
    enum tt_err err =
        tt_model_command_new(self->models->models[self->group].name, is_load, &command);
    tt_assert(err == TT_OK); /* out of memory for a few bytes: nothing can go on */
    command->is_local = true;
    self->awaits_command = true;
    tt_port_submit_command(self->port, command, on_commanded, self);
}

static void on_act(void *context, int32_t model, bool is_load) {
    struct tt_model_service *self = context;
    tt_assert(self->group == NONE);
    self->group = model;
    self->is_load = is_load;
    self->err = TT_OK;
    if (self->models->groups[model] != model) /* a later version; the first stands for all */
        return;                               /* _settle reports it */
    command(self, is_load);
}

static void ended(struct tt_model_service *self, enum tt_err err) {
    self->group = NONE;
    tt_model_duty_acted(self->duty, (uint16_t)-err);
}

static void on_commanded(void *context, struct tt_model_command *command_done) {
    struct tt_model_service *self = context;
    struct tt_error *why = &self->whys[self->group];
    enum tt_err err = command_done->err;
    bool was_load = command_done->is_load;
    if (err)
        *why = command_done->why;
    tt_model_command_free(command_done);
    self->awaits_command = false;
    if (!was_load) {
        self->awaits_end = true;
        return;
    }
    if (!err && (err = tt_fleet_models_loaded(self->models, self->port, self->group, why))) {
        self->err = err;
        tt_model_duty_lost(self->duty, self->group);
        command(self, false);
        return;
    }
    if (!err)
        self->changed(self->context, self->group);
    ended(self, err);
}

bool tt_model_service_adopt(struct tt_model_service *self, const struct tt_served_model *served) {
    struct tt_error ignored; /* the command's end will find it again */
    return self->awaits_command && self->is_load &&
           strcmp(self->models->models[self->group].name, served->name) == 0 &&
           tt_fleet_models_loaded(self->models, self->port, self->group, &ignored) == TT_OK;
}

struct leaving {
    const char *name;
    bool is_leaving;
};

static void look_for(void *context, const char *name, const char *version, const char *state,
                     const char *reason, const struct tt_served_model *served) {
    (void)version;
    (void)reason;
    struct leaving *self = context;
    if (strcmp(name, self->name) == 0)
        self->is_leaving |= served || strcmp(state, "UNLOADING") == 0;
}

/* Whether the unload is through. */
static void look_whether_it_left(struct tt_model_service *self) {
    struct leaving leaving = {.name = self->models->models[self->group].name};
    tt_serving_index(self->port, look_for, &leaving);
    if (leaving.is_leaving)
        return;
    self->awaits_end = false;
    tt_fleet_models_unloaded(self->models, self->group);
    self->changed(self->context, self->group);
    ended(self, self->err);
}

/* ---- what clients say ---- */

/* NULL: it is on its way to the primary, or was answered. */
static const char *pass_on(struct tt_model_service *self, struct tt_model_command *command,
                           enum tt_err *out_err) {
    int32_t group = tt_fleet_models_group(self->models, command->name);
    *out_err = TT_ERR_UNSUPPORTED;
    if (!self->frontend)
        return "the models of a cluster are loaded and unloaded at its frontends";
    if (command->config_json || command->file_count > 0)
        return "a cluster loads the files of its repositories; it takes none from a client";
    *out_err = TT_OK;
    if (group < 0 && !command->is_load)
        return "the cluster does not know it";
    *out_err = TT_ERR_NOT_FOUND;
    if (strlen(command->name) >= TT_MODEL_NOTICE_TEXT_BYTES)
        return "its name is too long";
    int32_t place = 0;
    while (place < TT_MODEL_SERVICE_COMMANDS && self->commands[place])
        place++;
    *out_err = TT_ERR_BUSY;
    if (place == TT_MODEL_SERVICE_COMMANDS)
        return "too many commands wait for the scheduler of the cluster";
    *out_err = TT_ERR_UNAVAILABLE;
    if (!tt_frontend_wish(self->frontend, ++self->command_count, TT_CLUSTER_NO_MODEL,
                          command->is_load)) /* by its name */
        return "no scheduler of the cluster is known";
    self->commands[place] = command;
    self->numbers[place] = self->command_count;
    self->epoch = self->frontend->primary.epoch;
    return NULL;
}

static void end(struct tt_model_command *take_command, enum tt_err err, const char *text,
                size_t length) {
    char sentence[400];
    snprintf(sentence, sizeof(sentence), "failed to %s '%s': %.*s",
             take_command->is_load ? "load" : "unload", take_command->name, (int)length, text);
    tt_command_inbox_end(take_command, err, sentence);
}

const char *tt_model_service_name(const struct tt_model_service *self, uint64_t number) {
    for (int32_t i = 0; i < TT_MODEL_SERVICE_COMMANDS; i++)
        if (self->commands[i] && self->numbers[i] == number)
            return self->commands[i]->name;
    return "";
}

void tt_model_service_wished(struct tt_model_service *self, uint64_t number, uint16_t failure,
                             const char *text, size_t length) {
    for (int32_t i = 0; i < TT_MODEL_SERVICE_COMMANDS; i++)
        if (self->commands[i] && self->numbers[i] == number) {
            struct tt_model_command *command = self->commands[i];
            self->commands[i] = NULL;
            /* What another process calls an error is not trusted to be one of ours. */
            enum tt_err err = failure == 0                       ? TT_OK
                              : failure <= -(int)TT_ERR_INTERNAL ? (enum tt_err) - failure
                                                                 : TT_ERR_INTERNAL;
            end(command, err, text, length);
            return;
        }
}

static void forget_primary(struct tt_model_service *self) {
    static const char text[] = "the scheduler of the cluster changed; the index of the repository "
                               "says what is loaded";
    for (int32_t i = 0; i < TT_MODEL_SERVICE_COMMANDS; i++)
        if (self->commands[i]) {
            end(self->commands[i], TT_ERR_UNAVAILABLE, text, strlen(text));
            self->commands[i] = NULL;
        }
}

/* ---- the node's turns ---- */

void tt_model_service_settle(struct tt_model_service *self) {
    while (self->group != NONE && self->models->groups[self->group] != self->group)
        ended(self, TT_OK);
    if (self->awaits_end)
        look_whether_it_left(self);
    if (self->frontend && (!self->frontend->linked || self->frontend->primary.epoch != self->epoch))
        forget_primary(self);
    struct tt_model_command *command = tt_command_inbox_take(self->inbox);
    for (struct tt_model_command *next; command; command = next) {
        next = command->next;
        enum tt_err err;
        const char *text = pass_on(self, command, &err);
        if (text)
            end(command, err, text, strlen(text));
    }
}

const char *tt_model_service_reason(const struct tt_model_service *self, int32_t group) {
    return self->whys[group].text;
}

enum tt_err tt_model_service_init(struct tt_model_service *self, struct tt_fleet_models *models,
                                  struct tt_model_duty *duty, struct tt_port *port,
                                  struct tt_command_inbox *inbox, struct tt_frontend *frontend) {
    *self =
        (struct tt_model_service){.models = models,
                                  .duty = duty,
                                  .port = port,
                                  .inbox = inbox,
                                  .frontend = frontend,
                                  .group = NONE,
                                  .whys = calloc((size_t)models->capacity, sizeof(*self->whys))};
    if (!self->whys)
        return TT_ERR_NO_MEMORY;
    if (duty) {
        duty->context = self;
        duty->act = on_act;
    }
    return TT_OK;
}

void tt_model_service_fini(struct tt_model_service *self) {
    forget_primary(self);
    free(self->whys);
    self->whys = NULL;
}
