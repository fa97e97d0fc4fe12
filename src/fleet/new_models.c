#include "fleet/new_models.h"

#include "serve/serving.h"

#include <string.h>

static struct tt_new_model_wish *current(struct tt_new_models *self) {
    return &self->wishes[self->first];
}

static void end(struct tt_new_models *self, enum tt_err err, int32_t group, const char *why) {
    const struct tt_new_model_wish wish = *current(self);
    self->first = (self->first + 1) % TT_NEW_MODELS_WISHES;
    self->count--;
    if (err)
        self->refused(self->context, &wish, err, why);
    else
        self->resolved(self->context, &wish, group);
}

static void on_loaded(void *context, struct tt_model_command *command) {
    struct tt_new_models *self = context;
    const char *name = current(self)->name;
    struct tt_error why = command->why;
    enum tt_err err = command->err;
    int32_t group = tt_fleet_models_group(self->models, name);
    tt_model_command_free(command);
    if (!err)
        err = tt_fleet_models_take(self->models, self->port, name, &group, &why);
    else if (group >= 0)
        err = TT_OK; /* other nodes have it */
    self->is_loading = false;
    end(self, err, group, why.text);
}

static void begin(struct tt_new_models *self) {
    const struct tt_new_model_wish *wish = current(self);
    int32_t group = tt_fleet_models_group(self->models, wish->name);
    struct tt_model_command *command;
    if (group < 0 && !wish->is_load) {
        end(self, TT_ERR_NOT_FOUND, -1, "the cluster does not know it");
    } else if (!wish->is_load || self->serves(self->context, wish->name)) {
        end(self, TT_OK, group, NULL);
    } else if (tt_model_command_new(wish->name, true, &command)) {
        end(self, TT_ERR_NO_MEMORY, -1, "out of memory");
    } else {
        command->is_local = true;
        self->is_loading = true;
        tt_port_submit_command(self->port, command, on_loaded, self);
    }
}

void tt_new_models_settle(struct tt_new_models *self) {
    while (self->count > 0 && !self->is_loading)
        begin(self);
}

void tt_new_models_wish(struct tt_new_models *self, struct tt_new_model_wish wish,
                        const uint8_t *name, size_t length) {
    wish.name[0] = '\0';
    if (!tt_model_notice_is_text(name, length)) {
        self->refused(self->context, &wish, TT_ERR_INVALID, "no model can have this name");
        return;
    }
    memcpy(wish.name, name, length);
    wish.name[length] = '\0';
    if (self->count == TT_NEW_MODELS_WISHES) {
        self->refused(self->context, &wish, TT_ERR_BUSY,
                      "too many commands wait for the scheduler of the cluster");
        return;
    }
    self->wishes[(self->first + self->count++) % TT_NEW_MODELS_WISHES] = wish;
}
