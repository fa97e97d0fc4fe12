#include "lab/sweep/sweep_points.h"

#include <string.h>

enum { MAX_POINTS = 1000000 };

int32_t tt_sweep_points_count(const Tutti__Experiment *message) {
    int64_t points = 1;
    for (size_t i = 0; i < message->n_sweep && points <= MAX_POINTS; i++)
        points *= (int64_t)message->sweep[i]->n_value;
    return points <= MAX_POINTS ? (int32_t)points : -1;
}

/* The value that sweep `at` has at `point`. */
static const char *value_at(const Tutti__Experiment *message, size_t at, int32_t point) {
    for (size_t i = message->n_sweep; i-- > at + 1;)
        point /= (int32_t)message->sweep[i]->n_value;
    return message->sweep[at]->value[point % (int32_t)message->sweep[at]->n_value];
}

/* The next one of texts that are separated by commas, without spaces before it. */
static bool next_part(const char **at, char *part, size_t size) {
    if (!*at)
        return false;
    const char *comma = strchr(*at, ',');
    size_t length = comma ? (size_t)(comma - *at) : strlen(*at);
    while (length > 0 && **at == ' ') {
        (*at)++;
        length--;
    }
    if (length >= size)
        length = size - 1;
    memcpy(part, *at, length);
    part[length] = '\0';
    *at = comma ? comma + 1 : NULL;
    return true;
}

static enum tt_err set_together(struct tt_experiment *experiment, const char *parameters,
                                const char *values, struct tt_error *why) {
    char parameter[128], value[256];
    const char *p = parameters, *v = values;
    while (next_part(&p, parameter, sizeof(parameter))) {
        if (!next_part(&v, value, sizeof(value)))
            return tt_fail(TT_ERR_INVALID, why, "'%s' has too few values for '%s'", values,
                           parameters);
        enum tt_err err = tt_experiment_set(experiment, parameter, value, why);
        if (err)
            return err;
    }
    return v ? tt_fail(TT_ERR_INVALID, why, "'%s' has too many values for '%s'", values, parameters)
             : TT_OK;
}

static enum tt_err apply(struct tt_experiment *experiment, int32_t point, struct tt_error *why) {
    const Tutti__Experiment *message = experiment->message;
    for (size_t i = 0; i < message->n_sweep; i++) {
        enum tt_err err = set_together(experiment, message->sweep[i]->parameter,
                                       value_at(message, i, point), why);
        if (err) {
            struct tt_error inner = *why;
            (void)tt_experiment_wrong(experiment, message->sweep[i], "value", why, "%s",
                                      inner.text);
            return err;
        }
    }
    return TT_OK;
}

enum tt_err tt_sweep_points_build(struct tt_experiment *experiment, int32_t point,
                                  struct tt_scenario *out_scenario, struct tt_error *why) {
    enum tt_err err = apply(experiment, point, why);
    return err ? err : tt_experiment_build(experiment, out_scenario, why);
}

json_t *tt_sweep_points_values(const Tutti__Experiment *message, int32_t point) {
    json_t *values = json_object();
    char parameter[128], value[256];
    for (size_t i = 0; i < message->n_sweep; i++) {
        const char *p = message->sweep[i]->parameter, *v = value_at(message, i, point);
        while (next_part(&p, parameter, sizeof(parameter)) && next_part(&v, value, sizeof(value)))
            json_object_set_new(values, parameter, json_string(value));
    }
    return values;
}
