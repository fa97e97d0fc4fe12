#include "serve/model_command.h"

#include "base/threads/quota.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_model_command_new(const char *name, bool is_load,
                                 struct tt_model_command **out_command) {
    struct tt_model_command *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    self->name = strdup(name);
    self->is_load = is_load;
    if (!self->name) {
        free(self);
        return TT_ERR_NO_MEMORY;
    }
    *out_command = self;
    return TT_OK;
}

static void free_files(struct tt_model_command *command) {
    for (int32_t i = 0; i < command->file_count; i++) {
        free(command->files[i].path);
        free(command->files[i].bytes);
    }
    free(command->files);
    command->files = NULL;
    command->file_count = 0;
    if (command->quota)
        tt_quota_give(command->quota, command->quota_bytes);
    command->quota = NULL;
}

enum tt_err tt_model_command_charge(struct tt_model_command *self, struct tt_quota *quota,
                                    struct tt_error *why) {
    int64_t bytes = self->config_json ? (int64_t)strlen(self->config_json) : 0;
    tt_assert(!self->quota);
    for (int32_t i = 0; i < self->file_count; i++)
        bytes += (int64_t)self->files[i].size_bytes;
    if (!tt_quota_take(quota, bytes))
        return tt_fail(TT_ERR_BUSY, why,
                       "bodies and loads that wait take %lld bytes, and with the %lld of this load "
                       "more than the limit of %lld; try again later",
                       (long long)tt_quota_used(quota), (long long)bytes, (long long)quota->limit);
    self->quota = quota;
    self->quota_bytes = bytes;
    return TT_OK;
}

void tt_model_command_free(struct tt_model_command *take_command) {
    if (!take_command)
        return;
    free_files(take_command);
    free(take_command->config_json);
    free(take_command->name);
    free(take_command);
}

void tt_model_command_finish(struct tt_model_command *take_command) {
    struct tt_command_box *box = take_command->box;
    tt_assert(box != NULL);
    free_files(take_command); /* here, because it takes long, and the port's thread has clients */
    /* Wakes under the lock: once the port has taken the command out, it may close. */
    tt_lock_take(&box->lock);
    take_command->next = box->finished;
    box->finished = take_command;
    tt_counter_add(&box->finished_count, 1);
    box->wake(box->wake_context);
    tt_lock_give(&box->lock);
}

void tt_command_box_init(struct tt_command_box *self, const struct tt_model_controller *controller,
                         void (*wake)(void *context), void *wake_context) {
    *self = (struct tt_command_box){
        .controller = controller, .wake = wake, .wake_context = wake_context};
    tt_lock_init(&self->lock);
}

void tt_command_box_fini(struct tt_command_box *self) {
    tt_assert(self->waiting == 0);
    tt_assert(self->finished == NULL);
    tt_lock_fini(&self->lock);
}

void tt_command_box_submit(struct tt_command_box *self, struct tt_model_command *take_command) {
    tt_assert(take_command->box == NULL); /* once */
    take_command->box = self;
    self->waiting++;
    if (self->controller->submit) {
        self->controller->submit(self->controller->context, take_command);
        return;
    }
    take_command->err = tt_fail(TT_ERR_UNAVAILABLE, &take_command->why,
                                "the models of this server cannot be loaded or unloaded");
    tt_model_command_finish(take_command);
}

struct tt_model_command *tt_model_command_oldest_first(struct tt_model_command *newest) {
    struct tt_model_command *oldest = NULL;
    for (struct tt_model_command *next; newest; newest = next) {
        next = newest->next;
        newest->next = oldest;
        oldest = newest;
    }
    return oldest;
}

void tt_command_box_drain(struct tt_command_box *self) {
    if (tt_counter_get(&self->finished_count) == self->reported_count)
        return;
    tt_lock_take(&self->lock);
    struct tt_model_command *newest = self->finished;
    self->finished = NULL;
    tt_lock_give(&self->lock);
    struct tt_model_command *oldest = tt_model_command_oldest_first(newest);
    for (struct tt_model_command *next; oldest; oldest = next) {
        next = oldest->next;
        self->reported_count++;
        self->waiting--;
        tt_assert(self->waiting >= 0);
        oldest->done(oldest->context, oldest);
    }
}
