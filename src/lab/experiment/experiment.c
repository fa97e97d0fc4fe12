#include "lab/experiment/experiment.h"

#include "lab/scenario/allocate.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything parsed is allocated by malloc, so strings and arrays of the message may be replaced by
 * our own. */

enum tt_err tt_experiment_open(struct tt_experiment *self, const char *path, struct tt_error *why) {
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path + 1) : 0;
    *self = (struct tt_experiment){.path = tt_copy_text(path),
                                   .folder = tt_format_text("%.*s", length, path)};
    tt_textproto_places_init(&self->places);
    ProtobufCMessage *message = NULL;
    struct tt_text text; /* of any kind of file: a pipe, too */
    enum tt_err err = tt_text_read_file(path, TT_TEXTPROTO_MAX_FILE_BYTES, &text, why);
    if (!err) {
        err =
            tt_textproto_read_places(path, tt_text_string(&text), text.length,
                                     &tutti__experiment__descriptor, &self->places, &message, why);
        tt_text_fini(&text);
    }
    if (err)
        tt_experiment_close(self);
    else
        self->message = (Tutti__Experiment *)message;
    return err;
}

void tt_experiment_close(struct tt_experiment *self) {
    free(self->path);
    free(self->folder);
    free(self->arrivals);
    if (self->message)
        tutti__experiment__free_unpacked(self->message, NULL);
    tt_textproto_places_fini(&self->places);
    *self = (struct tt_experiment){0};
}

enum tt_err tt_experiment_wrong(const struct tt_experiment *self, const void *message,
                                const char *field, struct tt_error *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    enum tt_err err =
        tt_textproto_places_wrong(&self->places, self->path, message, field, why, format, args);
    va_end(args);
    return err;
}

struct tt_goodput_options tt_experiment_goodput(const struct tt_experiment *self) {
    const Tutti__ExperimentGoodput *goodput = self->message->goodput;
    return (struct tt_goodput_options){
        .bad_rate = goodput && goodput->bad_rate > 0 ? goodput->bad_rate : 0.01,
        .precision = goodput && goodput->precision > 0 ? goodput->precision : 0.005,
        .from_bound = goodput && goodput->from_bound};
}

char *tt_experiment_path(const struct tt_experiment *self, const char *name) {
    return tt_format_text("%s%s", name[0] == '/' ? "" : self->folder, name);
}

/* ---- changing single values ---- */

static enum tt_err bad_value(const char *parameter, const char *value, const char *right,
                             struct tt_error *why) {
    return tt_fail(TT_ERR_INVALID, why, "%s is '%s'; it must be %s", parameter, value, right);
}

static bool parse_number(const char *text, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        return false;
    *out = value;
    return true;
}

static void replace_string(char **string, const char *value) {
    if (*string != protobuf_c_empty_string)
        free(*string);
    *string = tt_copy_text(value);
}

/* The message itself, or a new one if there is none. */
static void *given_or_new(void *message, const ProtobufCMessageDescriptor *descriptor) {
    if (message)
        return message;
    message = tt_allocate(1, descriptor->sizeof_message);
    protobuf_c_message_init(descriptor, message);
    return message;
}

static void *load_of(Tutti__Experiment *message) {
    return message->load = given_or_new(message->load, &tutti__experiment_load__descriptor);
}

static void *network_of(Tutti__Experiment *message) {
    message->network = given_or_new(message->network, &tutti__experiment_network__descriptor);
    return message->network;
}

static void *popularity_of(Tutti__Experiment *message) {
    Tutti__ExperimentLoad *load = load_of(message);
    return load->popularity = given_or_new(load->popularity, &tutti__popularity__descriptor);
}

static Tutti__ExperimentPolicy *policy_of(Tutti__Experiment *message) {
    return message->policy = given_or_new(message->policy, &tutti__experiment_policy__descriptor);
}

static void clear_options(Tutti__ExperimentPolicy *policy) {
    for (size_t i = 0; i < policy->n_option; i++)
        tutti__experiment_policy_option__free_unpacked(policy->option[i], NULL);
    free(policy->option);
    policy->option = NULL;
    policy->n_option = 0;
    replace_string(&policy->workers, "");
}

/* Replaces the policy and clears its options: they are meaningless to another policy. */
static void set_policy(Tutti__Experiment *message, const char *name) {
    Tutti__ExperimentPolicy *policy = policy_of(message);
    if (strcmp(policy->name, name) != 0)
        clear_options(policy);
    replace_string(&policy->name, name);
}

/* The policy inside each device, whose options it clears if it is another one; none: no
 * composition.
 */
static enum tt_err set_inside(Tutti__Experiment *message, const char *name, struct tt_error *why) {
    if (strcmp(name, "none") == 0) {
        if (message->inside)
            tutti__experiment_inside__free_unpacked(message->inside, NULL);
        message->inside = NULL;
        return TT_OK;
    }
    if (!tt_policy_find(name))
        return bad_value("inside", name, "the name of a policy, or none", why);
    message->inside = given_or_new(message->inside, &tutti__experiment_inside__descriptor);
    Tutti__ExperimentPolicy *policy = message->inside->policy =
        given_or_new(message->inside->policy, &tutti__experiment_policy__descriptor);
    if (strcmp(policy->name, name) != 0)
        clear_options(policy);
    replace_string(&policy->name, name);
    return TT_OK;
}

static void set_option(Tutti__Experiment *message, const char *key, const char *value) {
    Tutti__ExperimentPolicy *policy = policy_of(message);
    size_t at = 0;
    while (at < policy->n_option && strcmp(policy->option[at]->key, key) != 0)
        at++;
    if (at == policy->n_option) {
        policy->option = tt_reallocate(policy->option, at + 1, sizeof(*policy->option));
        policy->option[at] = given_or_new(NULL, &tutti__experiment_policy_option__descriptor);
        policy->option[policy->n_option++]->key = tt_copy_text(key);
    }
    replace_string(&policy->option[at]->value, value);
}

static void *whole_of(Tutti__Experiment *message) { return message; }

/* The field of a parameter that is a single double; NULL: it is not one. */
static double *number_field(Tutti__Experiment *message, const char *name) {
    static const struct {
        const char *name;
        void *(*owner)(Tutti__Experiment *message);
        size_t offset;
    } numbers[] = {
        {"duration_s", whole_of, offsetof(Tutti__Experiment, duration_s)},
        {"warm_up_s", whole_of, offsetof(Tutti__Experiment, warm_up_s)},
        {"slo_scale", whole_of, offsetof(Tutti__Experiment, slo_scale)},
        {"jitter", whole_of, offsetof(Tutti__Experiment, jitter)},
        {"abort_ms", whole_of, offsetof(Tutti__Experiment, abort_ms)},
        {"control_us", network_of, offsetof(Tutti__ExperimentNetwork, control_us)},
        {"data_us_per_row", network_of, offsetof(Tutti__ExperimentNetwork, data_us_per_row)},
        {"rate", load_of, offsetof(Tutti__ExperimentLoad, rate)},
        {"interval_us", load_of, offsetof(Tutti__ExperimentLoad, interval_us)},
        {"shape", load_of, offsetof(Tutti__ExperimentLoad, shape)},
        {"zipf", popularity_of, offsetof(Tutti__Popularity, zipf)},
    };
    for (size_t i = 0; i < TT_COUNT(numbers); i++)
        if (strcmp(name, numbers[i].name) == 0)
            return (void *)((char *)numbers[i].owner(message) + numbers[i].offset);
    return NULL;
}

static void apply_number(Tutti__Experiment *message, const char *name, double number) {
    if (strcmp(name, "rate") == 0) { /* replaces every other form of the rate */
        message->load->interval_us = 0;
        for (size_t i = 0; i < message->load->n_segment; i++)
            tutti__rate_segment__free_unpacked(message->load->segment[i], NULL);
        message->load->n_segment = 0;
    }
    if (strcmp(name, "interval_us") == 0)
        message->load->rate = 0;
    if (strcmp(name, "shape") == 0)
        message->load->process = TUTTI__ARRIVAL_PROCESS__GAMMA;
    *number_field(message, name) = number;
}

static bool apply_whole(Tutti__Experiment *message, const char *name, int64_t value) {
    bool known = true;
    if (strcmp(name, "seed") == 0) {
        message->seed = value;
    } else if (strcmp(name, "requests") == 0) {
        message->requests = value;
    } else if (strcmp(name, "devices") == 0) {
        if (message->n_device > 0)
            message->device[message->n_device - 1]->count = (int32_t)value;
    } else if (strcmp(name, "copies") == 0) {
        for (size_t m = 0; m < message->n_model; m++)
            message->model[m]->copies = (int32_t)value;
    } else if (strcmp(name, "executors") == 0) {
        for (size_t d = 0; d < message->n_device; d++)
            message->device[d]->executors = (int32_t)value;
    } else if (strcmp(name, "pool_slots") == 0) {
        for (size_t d = 0; d < message->n_device; d++)
            message->device[d]->pool_slots = (int32_t)value;
    } else if (strcmp(name, "max_batch") == 0) {
        for (size_t m = 0; m < message->n_model; m++)
            message->model[m]->max_batch = (int32_t)value;
        for (size_t t = 0; t < message->n_model_table; t++)
            message->model_table[t]->max_batch = (int32_t)value;
    } else {
        known = false;
    }
    return known;
}

/* Sets the SLO, or the line of the profile, of every model block. */
static enum tt_err set_of_models(const Tutti__Experiment *message, const char *name, double number,
                                 struct tt_error *why) {
    for (size_t m = 0; m < message->n_model; m++) {
        Tutti__ExperimentModel *model = message->model[m];
        Tutti__LinearProfile *line = model->profile ? model->profile->linear : NULL;
        if (strcmp(name, "slo_ms") == 0)
            model->slo_ms = number;
        else if (strcmp(name, "ttft_ms") == 0)
            model->ttft_ms = number;
        else if (strcmp(name, "tpot_ms") == 0)
            model->tpot_ms = number;
        else if (!line)
            return tt_fail(TT_ERR_INVALID, why,
                           "%s needs models with profile { linear { ... } }; '%s' has none", name,
                           model->name);
        else if (strcmp(name, "alpha_ms") == 0)
            line->alpha_ms = number;
        else
            line->beta_ms = number;
    }
    return TT_OK;
}

/* Sets the table, or the column of lengths, of the models that have one. */
static enum tt_err set_text_of_models(const Tutti__Experiment *message, const char *name,
                                      const char *value, struct tt_error *why) {
    bool is_table = strcmp(name, "step_file") == 0, any = false;
    for (size_t m = 0; m < message->n_model; m++) {
        Tutti__ExperimentModel *model = message->model[m];
        char **text = is_table ? &model->step_file : model->lengths ? &model->lengths->input : NULL;
        if (!text || !(*text)[0])
            continue;
        any = true;
        replace_string(text, value);
    }
    return any ? TT_OK
               : tt_fail(TT_ERR_INVALID, why, "%s: no model has %s to be replaced", name,
                         is_table ? "a step_file" : "lengths with a column of inputs");
}

static enum tt_err set_world(Tutti__Experiment *message, const char *name, struct tt_error *why) {
    char upper[32];
    size_t length = 0;
    for (; name[length] && length + 1 < sizeof(upper); length++)
        upper[length] = (char)toupper((unsigned char)name[length]);
    upper[length] = '\0';
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value_by_name(&tutti__experiment_world__descriptor, upper);
    if (!value)
        return bad_value("world", name, "simulated, emulated, real or cluster", why);
    message->world = (Tutti__ExperimentWorld)value->value;
    return TT_OK;
}

static enum tt_err set_learn(Tutti__Experiment *message, const char *value, struct tt_error *why) {
    bool learns = strcmp(value, "true") == 0;
    if (!learns && strcmp(value, "false") != 0)
        return bad_value("learn", value, "true or false", why);
    message->learn = learns;
    return TT_OK;
}

/* Applies the changes of one contender. */
static enum tt_err set_contender(struct tt_experiment *self, const char *name,
                                 struct tt_error *why) {
    const Tutti__Experiment *message = self->message;
    const Tutti__ExperimentContender *contender = NULL;
    for (size_t i = 0; i < message->n_contender && !contender; i++)
        if (strcmp(message->contender[i]->name, name) == 0)
            contender = message->contender[i];
    if (!contender)
        return tt_fail(TT_ERR_INVALID, why, "no contender is called '%s'", name);
    enum tt_err err = TT_OK;
    for (size_t i = 0; i < contender->n_set && !err; i++) {
        char *text = tt_copy_text(contender->set[i]), *equals = strchr(text, '=');
        if (equals)
            *equals = '\0';
        err = !equals || strcmp(text, "contender") == 0
                  ? tt_fail(TT_ERR_INVALID, why, "contender %s: set is '%s'; it must be NAME=VALUE",
                            name, contender->set[i])
                  : tt_experiment_set(self, text, equals + 1, why);
        free(text);
    }
    return err;
}

enum tt_err tt_experiment_set(struct tt_experiment *self, const char *parameter, const char *value,
                              struct tt_error *why) {
    Tutti__Experiment *message = self->message;
    if (strcmp(parameter, "contender") == 0)
        return set_contender(self, value, why);
    if (strcmp(parameter, "world") == 0)
        return set_world(message, value, why);
    if (strcmp(parameter, "learn") == 0)
        return set_learn(message, value, why);
    if (strcmp(parameter, "inside") == 0)
        return set_inside(message, value, why);
    bool is_policy = strcmp(parameter, "policy") == 0;
    bool is_option = strncmp(parameter, "option.", 7) == 0 && parameter[7];
    bool is_repository = strcmp(parameter, "repository") == 0;
    bool is_workers = strcmp(parameter, "workers") == 0;
    if (is_policy)
        set_policy(message, value);
    if (is_option)
        set_option(message, parameter + 7, value);
    if (is_repository)
        replace_string(&message->repository, value);
    if (is_workers)
        replace_string(&policy_of(message)->workers, value);
    if (is_policy || is_option || is_repository || is_workers)
        return TT_OK;
    if (strcmp(parameter, "step_file") == 0 || strcmp(parameter, "lengths_input") == 0)
        return set_text_of_models(message, parameter, value, why);
    double number;
    bool is_number = parse_number(value, &number);
    if (number_field(message, parameter)) {
        if (!is_number || number < 0)
            return bad_value(parameter, value, "a number >= 0", why);
        apply_number(message, parameter, number);
        return TT_OK;
    }
    bool is_slo = strcmp(parameter, "slo_ms") == 0 || strcmp(parameter, "ttft_ms") == 0 ||
                  strcmp(parameter, "tpot_ms") == 0;
    if (is_slo || strcmp(parameter, "alpha_ms") == 0 || strcmp(parameter, "beta_ms") == 0) {
        if (!is_number || number < 0 || (is_slo && number == 0))
            return bad_value(parameter, value, is_slo ? "a number > 0" : "a number >= 0", why);
        return set_of_models(message, parameter, number, why);
    }
    char *end;
    long long whole = strtoll(value, &end, 10);
    bool is_whole = end != value && *end == '\0' && whole >= 0;
    bool wide = strcmp(parameter, "seed") == 0 || strcmp(parameter, "requests") == 0;
    if (!is_whole || (!wide && (whole < 1 || whole > 100000))) {
        if (apply_whole(&(Tutti__Experiment)TUTTI__EXPERIMENT__INIT, parameter, 1))
            return bad_value(parameter, value, wide ? "an integer >= 0" : "an integer 1 .. 100000",
                             why);
    } else if (apply_whole(message, parameter, whole)) {
        return TT_OK;
    }
    return tt_fail(
        TT_ERR_INVALID, why,
        "no parameter is called '%s'; there are: rate, interval_us, shape, zipf, slo_ms, ttft_ms, "
        "tpot_ms, slo_scale, alpha_ms, beta_ms, max_batch, devices, copies, control_us, "
        "data_us_per_row, jitter, abort_ms, duration_s, warm_up_s, requests, seed, executors, "
        "pool_slots, step_file, lengths_input, learn, world, repository, policy, option.KEY, "
        "workers, inside, contender",
        parameter);
}

void tt_experiment_set_arrivals(struct tt_experiment *self, const char *path) {
    free(self->arrivals);
    self->arrivals = tt_copy_text(path);
}
