#include "embed/embed_options.h"

#include "base/instant.h"
#include "base/processors.h"
#include "control/processor_plan.h"
#include "serve/domain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum tt_err read_integer(const char *key, const char *value, int64_t lowest, int64_t highest,
                                int64_t *out_value, struct tt_error *why) {
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (!*value || *end || errno || number < lowest || number > highest)
        return tt_fail(TT_ERR_INVALID, why,
                       "option '%s=%s': an integer from %lld to %lld is needed", key, value,
                       (long long)lowest, (long long)highest);
    *out_value = number;
    return TT_OK;
}

/* The index of the value in "a|b"; INVALID: it is none of them. */
static enum tt_err read_choice(const char *key, const char *value, const char *first,
                               const char *second, bool *out_is_second, struct tt_error *why) {
    *out_is_second = strcmp(value, second) == 0;
    return *out_is_second || strcmp(value, first) == 0
               ? TT_OK
               : tt_fail(TT_ERR_INVALID, why, "option '%s=%s': %s or %s is needed", key, value,
                         first, second);
}

static enum tt_err read_limit(struct tt_embed_options *self, const char *key, const char *value,
                              struct tt_error *why) {
    for (int32_t i = 0; i < tt_limit_count(); i++) {
        const struct tt_limit *limit = tt_limit_at(i);
        if (strcmp(limit->name, key) == 0)
            return read_integer(key, value, limit->lowest, limit->highest,
                                tt_limit_of(&self->limits, limit), why);
    }
    return tt_fail(
        TT_ERR_INVALID, why,
        "option '%s' is unknown; there are executors, onnxruntime, python, scheduler-threads, "
        "model-control-mode, load-model, exit-on-error, log, and the limits that "
        "`tutti serve --show-limits` prints",
        key);
}

static enum tt_err read_option(struct tt_embed_options *self, const char *key, const char *value,
                               struct tt_error *why) {
    struct tt_control_options *control = &self->control;
    int64_t number = 0;
    bool is_second = false;
    enum tt_err err;
    if (strcmp(key, "executors") == 0) {
        err = read_integer(key, value, 1, TT_DOMAIN_MAX_EXECUTORS, &number, why);
        control->loader.executors = err ? 0 : (int32_t)number;
    } else if (strcmp(key, "scheduler-threads") == 0) {
        err = read_integer(key, value, 0, 64, &number, why);
        control->scheduler_threads = (int32_t)number;
    } else if (strcmp(key, "onnxruntime") == 0) {
        control->loader.onnxruntime = value;
        err = TT_OK;
    } else if (strcmp(key, "python") == 0) {
        control->loader.python = value;
        err = TT_OK;
    } else if (strcmp(key, "model-control-mode") == 0) {
        err = read_choice(key, value, "none", "explicit", &is_second, why);
        control->mode = is_second ? TT_CONTROL_EXPLICIT : TT_CONTROL_NONE;
    } else if (strcmp(key, "exit-on-error") == 0) {
        err = read_choice(key, value, "false", "true", &is_second, why);
        control->exit_on_error = is_second;
    } else if (strcmp(key, "log") == 0) {
        err = read_choice(key, value, "none", "stderr", &is_second, why);
        self->logs = is_second;
    } else if (strcmp(key, "load-model") == 0) {
        if (control->load_count == TT_EMBED_MAX_LOADS)
            return tt_fail(TT_ERR_INVALID, why, "more than %d options load-model",
                           TT_EMBED_MAX_LOADS);
        self->loads[control->load_count++] = value;
        err = TT_OK;
    } else {
        err = read_limit(self, key, value, why);
    }
    return err;
}

enum tt_err tt_embed_options_init(struct tt_embed_options *self, const char *const *options,
                                  int32_t count, struct tt_error *why) {
    struct tt_processor_plan plan = tt_processor_plan_of(tt_processors_usable(), 0);
    *self = (struct tt_embed_options){.control = {.mode = TT_CONTROL_NONE,
                                                  .poll_ns = 15 * TT_S,
                                                  .strict_readiness = true,
                                                  .loader = {.executors = plan.executors}}};
    tt_limits_default(&self->limits);
    self->control.limits = &self->limits;
    self->control.load = self->loads;
    for (int32_t i = 0; i < count; i++) {
        char key[64];
        const char *equals = strchr(options[i], '=');
        size_t length = equals ? (size_t)(equals - options[i]) : 0;
        if (!equals || length == 0 || length >= sizeof(key))
            return tt_fail(TT_ERR_INVALID, why, "option %d, '%s': \"key=value\" is needed", i,
                           options[i]);
        memcpy(key, options[i], length);
        key[length] = '\0';
        enum tt_err err = read_option(self, key, equals + 1, why);
        if (err)
            return err;
    }
    if (self->control.load_count > 0 && self->control.mode != TT_CONTROL_EXPLICIT)
        return tt_fail(TT_ERR_INVALID, why,
                       "option 'load-model' needs 'model-control-mode=explicit'");
    return TT_OK;
}
