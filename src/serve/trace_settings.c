#include "serve/trace_settings.h"

#include "base/lock.h"

#include <stdlib.h>
#include <string.h>

const struct tt_trace_setting tt_trace_setting_default = {.rate = 1000, .count = -1};

struct own {
    char *model;
    uint32_t has; /* bits as in a change */
    struct tt_trace_setting setting;
    struct own *next;
};

struct tt_trace_settings {
    struct tt_lock lock;
    struct tt_trace_setting beginning, all;
    struct own *owns;
};

enum tt_err tt_trace_settings_new(const struct tt_trace_setting *beginning,
                                  struct tt_trace_settings **out_self) {
    struct tt_trace_settings *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    tt_lock_init(&self->lock);
    self->beginning = self->all = *beginning;
    *out_self = self;
    return TT_OK;
}

void tt_trace_settings_free(struct tt_trace_settings *take_self) {
    if (!take_self)
        return;
    for (struct own *own = take_self->owns, *next; own; own = next) {
        next = own->next;
        free(own->model);
        free(own);
    }
    tt_lock_fini(&take_self->lock);
    free(take_self);
}

static void copy(struct tt_trace_setting *to, const struct tt_trace_setting *from, uint32_t which) {
    if (which & TT_TRACE_LEVELS)
        to->levels = from->levels;
    if (which & TT_TRACE_RATE)
        to->rate = from->rate;
    if (which & TT_TRACE_COUNT)
        to->count = from->count;
    if (which & TT_TRACE_LOG_FREQUENCY)
        to->log_frequency = from->log_frequency;
}

static struct own *find(const struct tt_trace_settings *self, const char *model) {
    struct own *own = self->owns;
    while (own && strcmp(own->model, model) != 0)
        own = own->next;
    return own;
}

void tt_trace_settings_get(struct tt_trace_settings *self, const char *model,
                           struct tt_trace_setting *out_setting) {
    tt_lock_take(&self->lock);
    *out_setting = self->all;
    const struct own *own = model ? find(self, model) : NULL;
    if (own)
        copy(out_setting, &own->setting, own->has);
    tt_lock_give(&self->lock);
}

static struct own *find_or_add(struct tt_trace_settings *self, const char *model) {
    struct own *own = find(self, model);
    if (own)
        return own;
    own = calloc(1, sizeof(*own));
    char *name = strdup(model);
    if (!own || !name) {
        free(own);
        free(name);
        return NULL;
    }
    own->model = name;
    own->next = self->owns;
    self->owns = own;
    return own;
}

enum tt_err tt_trace_settings_change(struct tt_trace_settings *self, const char *model,
                                     const struct tt_trace_change *change) {
    enum tt_err err = TT_OK;
    tt_lock_take(&self->lock);
    if (!model) {
        copy(&self->all, &self->beginning, change->clears);
        copy(&self->all, &change->values, change->sets);
    } else {
        struct own *own = find_or_add(self, model);
        if (own) {
            own->has &= ~change->clears;
            own->has |= change->sets;
            copy(&own->setting, &change->values, change->sets);
        } else {
            err = TT_ERR_NO_MEMORY;
        }
    }
    tt_lock_give(&self->lock);
    return err;
}
