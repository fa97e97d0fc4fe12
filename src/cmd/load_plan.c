#include "cmd/load_plan.h"

#include "base/instant.h"
#include "client/http_fetch.h"
#include "lab/experiment/experiment.h"
#include "lab/scenario/allocate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_RATE = 100,
    DEFAULT_DURATION_S = 10,
    ENDLESS_S = 1000000,
    BUCKETS = 4096,
    VARIANTS = 8, /* bodies kept of the same model, rows and length */
    MAX_FILE_BYTES = 1 << 30,
};

#define FETCH_NS (10 * TT_S)
#define KEPT_BYTES_LIMIT ((size_t)256 << 20)

/* Bodies of one model, rows and length. */
struct tt_load_body {
    struct tt_load_body *next;
    int32_t model, rows;
    int64_t length;
    int32_t count, turn;
    struct tt_kserve_client_body variants[VARIANTS];
};

static int64_t ns_of(double value, int64_t unit_ns) {
    return (int64_t)(value * (double)unit_ns + 0.5);
}

/* The value of "MODEL=VALUE" or "VALUE", and the length of MODEL (0: all models). */
static const char *value_of(const char *item, size_t *out_model_length) {
    const char *equals = strchr(item, '=');
    *out_model_length = equals ? (size_t)(equals - item) : 0;
    return equals ? equals + 1 : item;
}

static bool is_named(const char *name, const char *item, size_t length) {
    return strlen(name) == length && memcmp(name, item, length) == 0;
}

/* --- the scenario --- */

static enum tt_err add_model(struct tt_scenario *scenario, const char *item, int32_t rows,
                             struct tt_error *why) {
    size_t name_bytes;
    double weight;
    if (!tt_flags_weighted(item, &name_bytes, &weight))
        return tt_fail(TT_ERR_INVALID, why,
                       "--model '%s': the weight behind the colon must be from 0.000001 to 1000000",
                       item);
    struct tt_scenario_model *model = &scenario->models[scenario->model_count];
    model->name = tt_format_text("%.*s", (int)name_bytes, item);
    model->weight = (int64_t)(weight * 1e6 + 0.5);
    model->rows = rows > 0 ? rows : 1;
    model->step_model.slo_ns = TT_NEVER;
    model->step_model.max_batch = INT32_MAX;
    scenario->model_count++;
    for (int32_t m = 0; m + 1 < scenario->model_count; m++)
        if (strcmp(scenario->models[m].name, model->name) == 0)
            return tt_fail(TT_ERR_INVALID, why, "--model '%s' is given twice", model->name);
    return model->name[0] ? TT_OK : tt_fail(TT_ERR_INVALID, why, "--model has no name");
}

static enum tt_err scenario_of_flags(const struct tt_load_flags *flags,
                                     struct tt_scenario *scenario, struct tt_error *why) {
    scenario->models = tt_allocate((size_t)flags->models.count, sizeof(*scenario->models));
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < flags->models.count; i++)
        err = add_model(scenario, flags->models.texts[i], (int32_t)flags->rows, why);
    scenario->process = flags->process < 0 ? TT_PROCESS_POISSON : (enum tt_process)flags->process;
    scenario->shape_ppm = flags->gamma_shape_ppm;
    double rate = flags->rate >= 0 ? flags->rate : DEFAULT_RATE;
    scenario->rate = (int64_t)(rate * (double)TT_RATE_ONE + 0.5);
    scenario->seed = 1;
    scenario->duration_ns = (flags->requests >= 0 ? ENDLESS_S : DEFAULT_DURATION_S) * TT_S;
    if (!err && flags->arrivals) {
        scenario->duration_ns = TT_NEVER;
        scenario->arrivals_path = tt_copy_text(flags->arrivals);
    }
    return err;
}

static enum tt_err scenario_of_file(const struct tt_load_flags *flags, char **out_title,
                                    struct tt_scenario *scenario, struct tt_error *why) {
    struct tt_experiment experiment;
    enum tt_err err = tt_experiment_open(&experiment, flags->experiment, why);
    if (err)
        return err;
    char rate[32];
    snprintf(rate, sizeof(rate), "%.6f", flags->rate);
    if (flags->rate >= 0)
        err = tt_experiment_set(&experiment, "rate", rate, why);
    if (!err && flags->arrivals)
        tt_experiment_set_arrivals(&experiment, flags->arrivals);
    if (!err)
        err = tt_experiment_build(&experiment, scenario, why);
    if (!err)
        *out_title = tt_copy_text(experiment.message->title);
    tt_experiment_close(&experiment);
    return err;
}

static enum tt_err set_slos(const struct tt_load_flags *flags, struct tt_scenario *scenario,
                            struct tt_error *why) {
    for (int32_t i = 0; i < flags->slos.count; i++) {
        size_t length;
        const char *item = flags->slos.texts[i], *value = value_of(item, &length);
        double slo_ms;
        if (!tt_flags_decimal(value, 0.001, 1e9, &slo_ms))
            return tt_fail(TT_ERR_INVALID, why,
                           "--slo-ms '%s' must be milliseconds from 0.001 to 1e9", item);
        bool found = false;
        for (int32_t m = 0; m < scenario->model_count; m++) {
            if (length && !is_named(scenario->models[m].name, item, length))
                continue;
            scenario->models[m].step_model.slo_ns = ns_of(slo_ms, TT_MS);
            found = true;
        }
        if (!found)
            return tt_fail(TT_ERR_INVALID, why,
                           "--slo-ms '%s': no request goes to a model of that name", item);
    }
    return TT_OK;
}

static enum tt_err make_scenario(struct tt_load_plan *self, struct tt_error *why) {
    const struct tt_load_flags *flags = self->flags;
    struct tt_scenario *scenario = &self->scenario;
    enum tt_err err = flags->experiment ? scenario_of_file(flags, &self->title, scenario, why)
                                        : scenario_of_flags(flags, scenario, why);
    if (err)
        return err;
    if (flags->duration_s >= 0 && !scenario->arrivals_path)
        scenario->duration_ns = ns_of(flags->duration_s, TT_S);
    if (flags->warm_up_s >= 0)
        scenario->warm_up_ns = ns_of(flags->warm_up_s, TT_S);
    if (flags->requests >= 0)
        scenario->request_limit = flags->requests;
    if (flags->seed >= 0)
        scenario->seed = (uint64_t)flags->seed;
    if (scenario->warm_up_ns >= scenario->duration_ns)
        return tt_fail(TT_ERR_INVALID, why, "--warm-up is as long as the load itself, %g s",
                       (double)scenario->duration_ns / 1e9);
    if (flags->concurrency && scenario->arrivals_path)
        return tt_fail(TT_ERR_INVALID, why,
                       "--concurrency is a closed loop, but the arrivals of %s set the send times",
                       flags->experiment);
    return set_slos(flags, scenario, why);
}

/* --- models of the server --- */

static const char *served_name(const struct tt_load_flags *flags, const char *name) {
    const char *other = NULL;
    for (int32_t i = 0; i < flags->maps.count; i++) {
        size_t length;
        const char *item = flags->maps.texts[i], *served = value_of(item, &length);
        if (length && is_named(name, item, length))
            return served;
        if (length == 1 && item[0] == '*')
            other = served;
    }
    return other ? other : name;
}

static enum tt_err check_maps(const struct tt_load_plan *self, struct tt_error *why) {
    for (int32_t i = 0; i < self->flags->maps.count; i++) {
        size_t length;
        const char *item = self->flags->maps.texts[i];
        (void)value_of(item, &length);
        bool found = length == 1 && item[0] == '*';
        for (int32_t m = 0; m < self->scenario.model_count; m++)
            found |= length && is_named(self->scenario.models[m].name, item, length);
        if (!found)
            return tt_fail(
                TT_ERR_INVALID, why,
                "--map '%s' must be NAME=SERVED, where NAME is a model of the experiment", item);
    }
    return TT_OK;
}

enum { METADATA_BYTES = 1 << 20 };

static enum tt_err read_metadata(const char *path, struct tt_load_target *target,
                                 struct tt_error *why) {
    struct tt_text text = {0};
    enum tt_err err = tt_text_read_file(path, METADATA_BYTES, &text, why);
    if (err)
        return err;
    err = tt_kserve_client_model_read(tt_text_string(&text), text.length, &target->model, why);
    tt_text_fini(&text);
    return err ? tt_fail_in(err, why, "--metadata %s", path) : TT_OK;
}

static enum tt_err ask_for(struct tt_load_plan *self, struct tt_load_target *target,
                           struct tt_error *why) {
    struct tt_text path, answer;
    if (self->flags->metadata)
        return read_metadata(self->flags->metadata, target, why);
    tt_text_init(&path);
    tt_kserve_client_path(target->served, &path);
    enum tt_err err = path.failed
                          ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory")
                          : tt_http_fetch(&self->address, path.bytes, NULL, FETCH_NS, &answer, why);
    tt_text_fini(&path);
    if (err)
        return err;
    err = tt_kserve_client_model_read(answer.bytes ? answer.bytes : "", answer.length,
                                      &target->model, why);
    tt_text_fini(&answer);
    return err ? tt_fail_in(err, why, "model '%s'", target->served) : TT_OK;
}

static enum tt_err make_targets(struct tt_load_plan *self, struct tt_error *why) {
    int32_t count = self->scenario.model_count;
    self->targets = tt_allocate((size_t)count, sizeof(*self->targets));
    for (int32_t m = 0; m < count; m++) {
        struct tt_load_target *target = &self->targets[m];
        target->served = tt_copy_text(served_name(self->flags, self->scenario.models[m].name));
        int32_t same = 0; /* several models of an experiment may be one model of the server */
        while (same < m && strcmp(self->targets[same].served, target->served) != 0)
            same++;
        enum tt_err err = TT_OK;
        if (same < m)
            target->model = self->targets[same].model;
        else
            err = ask_for(self, target, why);
        if (err)
            return err;
    }
    return TT_OK;
}

/* --- inputs --- */

static enum tt_err set_shapes(struct tt_load_plan *self, struct tt_error *why) {
    for (int32_t i = 0; i < self->flags->shapes.count; i++) {
        const char *item = self->flags->shapes.texts[i];
        const char *slash = strchr(item, '/'), *colon = strrchr(item, ':');
        const char *name = slash && colon && slash < colon ? slash + 1 : item;
        if (!colon || colon == name || colon - name >= TT_MAX_NAME_BYTES)
            return tt_fail(TT_ERR_INVALID, why,
                           "--shape '%s' must be INPUT:DIMS, such as x:3,224,224", item);
        char input[TT_MAX_NAME_BYTES];
        memcpy(input, name, (size_t)(colon - name));
        input[colon - name] = '\0';
        int32_t found = 0;
        enum tt_err err = TT_OK;
        for (int32_t m = 0; !err && m < self->scenario.model_count; m++) {
            if (name != item &&
                !is_named(self->scenario.models[m].name, item, (size_t)(slash - item)))
                continue;
            err = tt_kserve_client_shape(&self->targets[m].model, input, colon + 1, why);
            found += err == TT_OK;
            if (err == TT_ERR_NOT_FOUND && name == item)
                err = TT_OK;
        }
        if (!err && !found)
            err = tt_fail(TT_ERR_INVALID, why, "no model has such an input");
        if (err)
            return tt_fail_in(TT_ERR_INVALID, why, "--shape '%s'", item);
    }
    return TT_OK;
}

static enum tt_err add_given(struct tt_load_target *target, const char *json, size_t size_bytes,
                             bool binary, struct tt_error *why) {
    struct tt_kserve_client_body body;
    enum tt_err err = tt_kserve_client_body_read(json, size_bytes, binary, &body, why);
    if (err)
        return err;
    target->given =
        tt_reallocate(target->given, (size_t)target->given_count + 1, sizeof(*target->given));
    target->given[target->given_count++] = body;
    return TT_OK;
}

/* One request over several lines, or one per line. */
static enum tt_err read_given(struct tt_load_target *target, const char *path, bool binary,
                              struct tt_error *why) {
    struct tt_text text;
    enum tt_err err = tt_text_read_file(path, MAX_FILE_BYTES, &text, why);
    if (err)
        return err;
    const char *at = tt_text_string(&text), *end = at + text.length;
    if (add_given(target, at, text.length, binary, NULL) != TT_OK) {
        int32_t line = 1;
        for (; !err && at < end; line++) {
            const char *line_end = memchr(at, '\n', (size_t)(end - at));
            line_end = line_end ? line_end : end;
            if (line_end - at > (ptrdiff_t)strspn(at, " \t\r\n"))
                err = add_given(target, at, (size_t)(line_end - at), binary, why);
            if (err)
                tt_fail_in(err, why, "%s:%d", path, line);
            at = line_end + 1;
        }
        if (!err && target->given_count == 0)
            err = tt_fail(TT_ERR_INVALID, why, "%s: the file holds no request", path);
    }
    tt_text_fini(&text);
    return err;
}

static enum tt_err read_inputs(struct tt_load_plan *self, struct tt_error *why) {
    const struct tt_flag_list *files = &self->flags->input_files;
    for (int32_t i = 0; i < files->count; i++) {
        size_t length;
        const char *item = files->texts[i], *path = value_of(item, &length);
        bool found = false;
        for (int32_t m = 0; m < self->scenario.model_count; m++) {
            if (length && !is_named(self->scenario.models[m].name, item, length))
                continue;
            found = true;
            enum tt_err err = read_given(&self->targets[m], path, !self->flags->json_body, why);
            if (err)
                return err;
        }
        if (!found)
            return tt_fail(TT_ERR_INVALID, why,
                           "--input-file '%s': no request goes to a model of that name", item);
    }
    return TT_OK;
}

static enum tt_err read_length_file(struct tt_load_plan *self, const char *path,
                                    struct tt_error *why) {
    struct tt_text text;
    enum tt_err err = tt_text_read_file(path, MAX_FILE_BYTES, &text, why);
    if (err)
        return err;
    int64_t capacity = 1;
    for (size_t i = 0; i < text.length; i++)
        capacity += text.bytes[i] == '\n';
    self->lengths = tt_allocate((size_t)capacity, sizeof(*self->lengths));
    int32_t number = 1;
    char *rest = text.length ? text.bytes : NULL, *line;
    for (; !err && (line = strsep(&rest, "\n")) != NULL; number++) {
        line[strcspn(line, " \t\r")] = '\0';
        if (*line && !tt_flags_integer(line, 0, INT32_MAX, &self->lengths[self->length_count++]))
            err = tt_fail(TT_ERR_INVALID, why,
                          "%s:%d: '%s' is not a length; each line must be a whole number", path,
                          number, line);
    }
    if (!err && self->length_count == 0)
        err = tt_fail(TT_ERR_INVALID, why, "%s: the file holds no length", path);
    tt_text_fini(&text);
    return err;
}

static enum tt_err read_lengths(struct tt_load_plan *self, struct tt_error *why) {
    const char *text = self->flags->length;
    if (!text)
        return TT_OK;
    if (text[0] == '@')
        return read_length_file(self, text + 1, why);
    char low[24];
    const char *dash = strchr(text, '-');
    size_t length = dash ? (size_t)(dash - text) : strlen(text);
    snprintf(low, sizeof(low), "%.*s", (int)(length < sizeof(low) ? length : 0), text);
    if (!tt_flags_integer(low, 0, INT32_MAX, &self->length_low) ||
        !tt_flags_integer(dash ? dash + 1 : low, self->length_low, INT32_MAX, &self->length_high))
        return tt_fail(TT_ERR_INVALID, why, "--length '%s' must be N, A-B with A <= B, or @FILE",
                       text);
    return TT_OK;
}

/* Refuses models for which no request can be built. */
static enum tt_err check_targets(const struct tt_load_plan *self, struct tt_error *why) {
    for (int32_t m = 0; m < self->scenario.model_count; m++) {
        const struct tt_load_target *target = &self->targets[m];
        const struct tt_scenario_model *model = &self->scenario.models[m];
        if (target->given)
            continue;
        const struct tt_tensor_spec *open = tt_kserve_client_open_input(&target->model);
        char shape[TT_MAX_RANK * 21 + 2];
        if (open && !self->flags->length && model->length == 0 && !self->scenario.arrivals_path)
            return tt_fail(
                TT_ERR_INVALID, why,
                "input '%s' of model '%s' is %s, variable beyond the rows: give --length or "
                "--shape %s:DIMS",
                open->name, target->served, tt_shape_print(&open->shape, shape, sizeof(shape)),
                open->name);
        if (model->rows > 1 && !tt_kserve_client_has_rows(&target->model))
            return tt_fail(TT_ERR_INVALID, why, "model '%s' takes one row per request, not %d",
                           target->served, model->rows);
    }
    return TT_OK;
}

enum tt_err tt_load_plan_open(struct tt_load_plan *self, const struct tt_load_flags *flags,
                              struct tt_error *why) {
    *self = (struct tt_load_plan){.flags = flags};
    enum tt_err err = tt_http_address_parse(flags->url, 8000, &self->address, why);
    if (!err)
        err = tt_http_login_open(&self->login, &flags->login, &self->address, why);
    if (!err && !self->address.is_loopback && !flags->yes_remote)
        err = tt_fail(TT_ERR_INVALID, why,
                      "%s is another machine, and a load drives servers to their limits: with its "
                      "owner's consent, add --yes-remote",
                      self->address.host);
    if (!err)
        err = make_scenario(self, why);
    if (!err)
        err = check_maps(self, why);
    if (!err)
        err = read_lengths(self, why);
    if (!err)
        err = make_targets(self, why);
    if (!err)
        err = set_shapes(self, why);
    if (!err)
        err = read_inputs(self, why);
    if (!err)
        err = check_targets(self, why);
    self->buckets = tt_allocate(BUCKETS, sizeof(*self->buckets));
    tt_prng_init(&self->prng, self->scenario.seed, 1);
    if (err)
        tt_load_plan_close(self);
    return err;
}

static void free_kept(struct tt_load_body *kept) {
    while (kept) {
        struct tt_load_body *next = kept->next;
        for (int32_t i = 0; i < kept->count; i++)
            tt_kserve_client_body_fini(&kept->variants[i]);
        free(kept);
        kept = next;
    }
}

void tt_load_plan_close(struct tt_load_plan *self) {
    tt_http_login_close(&self->login);
    for (int32_t m = 0; self->targets && m < self->scenario.model_count; m++) {
        struct tt_load_target *target = &self->targets[m];
        for (int32_t i = 0; i < target->given_count; i++)
            tt_kserve_client_body_fini(&target->given[i]);
        free(target->given);
        free(target->served);
    }
    for (int32_t i = 0; self->buckets && i < BUCKETS; i++)
        free_kept(self->buckets[i]);
    free(self->buckets);
    free(self->targets);
    free(self->lengths);
    free(self->title);
    tt_scenario_fini(&self->scenario);
    *self = (struct tt_load_plan){0};
}

/* --- bodies --- */

static int64_t draw_length(struct tt_load_plan *self, const struct tt_load_request *request) {
    if (request->length > 0 || !self->flags->length)
        return request->length > 0 ? request->length : 1;
    if (self->lengths)
        return self->lengths[tt_prng_below(&self->prng, (uint64_t)self->length_count)];
    return self->length_low + (int64_t)tt_prng_below(&self->prng, (uint64_t)(self->length_high -
                                                                             self->length_low + 1));
}

/* The entry of bodies with this model, rows and length, new or old. */
static struct tt_load_body *find_kept(struct tt_load_plan *self, int32_t model, int32_t rows,
                                      int64_t length) {
    uint64_t hash = ((uint64_t)model * 31 + (uint64_t)rows) * 1000003 + (uint64_t)length;
    struct tt_load_body **at = &self->buckets[hash % BUCKETS];
    while (*at && ((*at)->model != model || (*at)->rows != rows || (*at)->length != length))
        at = &(*at)->next;
    if (!*at) {
        *at = tt_allocate(1, sizeof(**at));
        **at = (struct tt_load_body){.model = model, .rows = rows, .length = length};
    }
    return *at;
}

enum tt_err tt_load_plan_body(struct tt_load_plan *self, const struct tt_load_request *request,
                              struct tt_kserve_client_body *own,
                              const struct tt_kserve_client_body **out_body, struct tt_error *why) {
    const struct tt_load_target *target = &self->targets[request->model];
    if (target->given) {
        *out_body = &target->given[request->number % target->given_count];
        return TT_OK;
    }
    bool open = tt_kserve_client_open_input(&target->model) != NULL;
    int64_t length = open ? draw_length(self, request) : 0;
    struct tt_load_body *kept = find_kept(self, request->model, request->rows, length);
    if (kept->count == VARIANTS || (kept->count && self->kept_bytes > KEPT_BYTES_LIMIT)) {
        *out_body = &kept->variants[kept->turn++ % kept->count];
        return TT_OK;
    }
    struct tt_kserve_client_body body;
    enum tt_err err = tt_kserve_client_body_draw(&target->model, request->rows, length,
                                                 !self->flags->json_body, &self->prng, &body, why);
    if (err)
        return err;
    if (self->kept_bytes <= KEPT_BYTES_LIMIT) {
        self->kept_bytes += body.json.capacity + body.binary.capacity;
        kept->variants[kept->count] = body;
        *out_body = &kept->variants[kept->count++];
    } else {
        *own = body;
        *out_body = NULL;
    }
    return TT_OK;
}

int64_t tt_load_plan_timeout_us(const struct tt_load_plan *self,
                                const struct tt_load_request *request) {
    if (self->flags->timeout_us >= 0)
        return self->flags->timeout_us;
    return request->deadline_at == TT_NEVER
               ? 0
               : tt_instant_max(1, (request->deadline_at - request->at) / 1000);
}
