#include "fleet/model_visits.h"

#include "serve/serving.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What follows the word; NULL: the line begins with something else. */
static const char *behind(const char *line, const char *word) {
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 ? line + length : NULL;
}

static enum tt_err put(json_t *take_json, struct tt_text *out, struct tt_error *why) {
    char *text = take_json ? json_dumps(take_json, JSON_COMPACT) : NULL;
    json_decref(take_json);
    if (!text)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    tt_text_puts(out, text);
    free(text);
    return TT_OK;
}

/* ---- commands ---- */

static void on_ended(void *context, struct tt_model_command *take_command) {
    struct tt_model_visit *visit = context;
    visit->is_ended = true;
    visit->err = take_command->err;
    snprintf(visit->text, sizeof(visit->text), "%s",
             take_command->err ? take_command->why.text : "");
    tt_model_command_free(take_command);
}

static enum tt_err begin(struct tt_model_visits *self, const char *model, bool is_load,
                         struct tt_text *out, struct tt_error *why) {
    struct tt_model_visit *visit = &self->visits[(self->count + 1) % TT_MODEL_VISITS];
    struct tt_model_command *command;
    if (!self->service->frontend)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "the models of a cluster are loaded and unloaded at its frontends");
    if (!*model)
        return tt_fail(TT_ERR_INVALID, why, "the model has no name");
    if (visit->number != 0 && !visit->is_ended)
        return tt_fail(TT_ERR_BUSY, why, "%d commands are under way", TT_MODEL_VISITS);
    if (tt_model_command_new(model, is_load, &command))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    *visit = (struct tt_model_visit){.number = ++self->count};
    command->done = on_ended;
    command->context = visit;
    tt_command_box_submit(&self->box, command);
    return put(json_pack("{s:I}", "command", (json_int_t)visit->number), out, why);
}

static enum tt_err show_command(struct tt_model_visits *self, const char *text, struct tt_text *out,
                                struct tt_error *why) {
    uint64_t number = strtoull(text, NULL, 10);
    const struct tt_model_visit *visit = &self->visits[number % TT_MODEL_VISITS];
    tt_command_box_drain(&self->box);
    if (number == 0 || visit->number != number)
        return tt_fail(TT_ERR_INVALID, why, "there is no command %.20s any more", text);
    return put(json_pack("{s:s, s:s}", "state",
                         !visit->is_ended ? "UNDER_WAY"
                         : visit->err     ? "FAILED"
                                          : "DONE",
                         "reason", visit->is_ended ? visit->text : ""),
               out, why);
}

/* ---- what the node has ---- */

struct look {
    const char *name;
    char state[16], reason[TT_MODEL_VISIT_BYTES];
};

/* The version that serves counts, else the first: the highest. */
static void look_at(void *context, const char *name, const char *version, const char *state,
                    const char *reason, const struct tt_served_model *served) {
    (void)version;
    struct look *self = context;
    if (strcmp(name, self->name) != 0 || (*self->state && !served))
        return;
    snprintf(self->state, sizeof(self->state), "%s", *state ? state : "UNAVAILABLE");
    snprintf(self->reason, sizeof(self->reason), "%s", reason ? reason : "");
}

static json_t *wanted(const struct tt_model_service *service, const char *model) {
    const struct tt_model_duty *duty = service->duty;
    int32_t group = tt_fleet_models_group(service->models, model);
    if (!duty || duty->epoch == 0)
        return json_null();
    for (int32_t i = 0; group >= 0 && i < duty->model_count; i++)
        if (strcmp(service->models->models[i].name, model) == 0 && duty->wanted[i].serves)
            return json_true();
    return json_false();
}

static enum tt_err show_model(struct tt_model_visits *self, const char *name, const char *role,
                              const char *model, struct tt_text *out, struct tt_error *why) {
    struct look look = {.name = model};
    if (!self->service->port)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "a %s serves no model", role);
    tt_serving_index(self->service->port, look_at, &look);
    return put(json_pack("{s:s, s:s, s:s, s:o, s:s}", "name", name, "role", role, "state",
                         *look.state ? look.state : "UNAVAILABLE", "wanted",
                         wanted(self->service, model), "reason", look.reason),
               out, why);
}

enum tt_err tt_model_visits_answer(struct tt_model_visits *self, const char *name, const char *role,
                                   const char *line, struct tt_text *out_answer,
                                   struct tt_error *why) {
    const char *load = behind(line, "load "), *unload = behind(line, "unload ");
    const char *command = behind(line, "command "), *model = behind(line, "model ");
    if (!self->service || !(load || unload || command || model))
        return TT_ERR_NOT_FOUND;
    if (load || unload)
        return begin(self, load ? load : unload, load != NULL, out_answer, why);
    return command ? show_command(self, command, out_answer, why)
                   : show_model(self, name, role, model, out_answer, why);
}

/* ---- life ---- */

void tt_model_visits_init(struct tt_model_visits *self, struct tt_model_service *service,
                          void (*wake)(void *context), void *context) {
    *self = (struct tt_model_visits){
        .service = service,
        .controller = {.submit = tt_command_inbox_put, .context = service->inbox}};
    tt_command_box_init(&self->box, &self->controller, wake, context);
}

void tt_model_visits_fini(struct tt_model_visits *self) {
    if (!self->service)
        return;
    tt_command_box_drain(&self->box);
    tt_command_box_fini(&self->box);
    self->service = NULL;
}
