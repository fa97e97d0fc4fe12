#include "model/config/settings.h"

#include "base/regular_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_model_settings_problem(const struct tt_model_settings *self, struct tt_findings *findings,
                               const void *message, const char *field, const char *format, ...) {
    struct tt_error sentence;
    va_list args;
    va_start(args, format);
    vsnprintf(sentence.text, sizeof(sentence.text), format, args);
    va_end(args);
    struct tt_textproto_place place = {1, 1};
    if (!tt_textproto_places_find(&self->places, message, field, &place))
        tt_textproto_places_find(&self->places, message, NULL, &place);
    tt_findings_add(findings, TT_FINDING_PROBLEM, "%s:%d:%d: %s", self->file_name, place.line,
                    place.column, sentence.text);
}

static void take_objective(struct tt_model_settings *self, struct tt_findings *findings) {
    double slo_ms = self->message->slo_ms;
    int64_t slo_us = self->message->slo_us;
    self->late = self->message->late;
    if (slo_us < 0 || slo_us > INT64_MAX / 1000)
        tt_model_settings_problem(
            self, findings, self->message, "slo_us",
            "slo_us is %lld; it is a number of microseconds, 0 for no objective",
            (long long)slo_us);
    else if (!(slo_ms >= 0 && slo_ms <= 1e12) || (slo_ms > 0 && slo_ms < 1e-3))
        tt_model_settings_problem(self, findings, self->message, "slo_ms",
                                  "slo_ms is %g; it is a number of milliseconds from 0.001 to "
                                  "1e12, 0 for no objective",
                                  slo_ms);
    else if (slo_ms > 0 && slo_us > 0)
        tt_model_settings_problem(self, findings, self->message, "slo_us",
                                  "slo_ms and slo_us are the same objective: leave slo_us out");
    else
        self->slo_ns = slo_us > 0 ? slo_us * 1000 : (int64_t)(slo_ms * 1e6 + 0.5);
}

/* `field`: an objective for the elements of answers. */
static int64_t token_slo_ns(const struct tt_model_settings *self, const char *field, double ms,
                            struct tt_findings *findings) {
    if (!(ms >= 0 && ms <= 1e9) || (ms > 0 && ms < 1e-3)) {
        tt_model_settings_problem(self, findings, self->message, field,
                                  "%s is %g; it is a number of milliseconds from 0.001 to 1e9, 0 "
                                  "for no objective",
                                  field, ms);
        return 0;
    }
    const Tutti__ModelEmulation *emulation = self->message->emulation;
    bool emulates = emulation && emulation->cells &&
                    emulation->cells->kind == TUTTI__MODEL_UNFOLD__KIND__SEQ2SEQ;
    if (ms > 0 && !self->message->unfold && !emulates) {
        tt_model_settings_problem(self, findings, self->message, field,
                                  "%s is for answers that come element by element, as those of "
                                  "models of cells do (unfold, or emulated cells of kind SEQ2SEQ)",
                                  field);
        return 0;
    }
    return (int64_t)(ms * 1e6 + 0.5);
}

static void take_token_slo(struct tt_model_settings *self, struct tt_findings *findings) {
    const Tutti__TuttiModel *message = self->message;
    self->tokens.ttft_ns = token_slo_ns(self, "ttft_ms", message->ttft_ms, findings);
    self->tokens.tpot_ns = token_slo_ns(self, "tpot_ms", message->tpot_ms, findings);
}

static void take_run_limit(struct tt_model_settings *self, struct tt_findings *findings) {
    enum { DAY_MS = 24 * 3600 * 1000 };
    int64_t max_run_ms = self->message->max_run_ms;
    if (max_run_ms < 0 || max_run_ms > DAY_MS)
        tt_model_settings_problem(self, findings, self->message, "max_run_ms",
                                  "max_run_ms is %lld; it is a number of milliseconds up to %d, 0 "
                                  "for the server's default",
                                  (long long)max_run_ms, DAY_MS);
    else
        self->max_run_ns = max_run_ms * 1000000;
}

static void take_policy(struct tt_model_settings *self, struct tt_findings *findings) {
    const Tutti__ModelPolicy *policy = self->message->policy;
    self->policy = policy ? policy->name : "";
    if (policy && !*policy->name && policy->n_option > 0)
        tt_model_settings_problem(self, findings, policy, "option",
                                  "options need the name of their policy");
    for (size_t i = 0; policy && i < policy->n_option; i++) {
        const Tutti__ModelPolicyOption *option = policy->option[i];
        if (!*option->key)
            tt_model_settings_problem(self, findings, option, NULL, "an option needs a key");
        for (size_t j = 0; j < i; j++)
            if (strcmp(policy->option[j]->key, option->key) == 0)
                tt_model_settings_problem(self, findings, option, "key",
                                          "option '%s' is given twice", option->key);
    }
}

static void take_length(struct tt_model_settings *self, struct tt_findings *findings) {
    const Tutti__ModelLength *length = self->message->length;
    if (!length)
        return;
    self->pad = length->pad;
    if (length->n_classes > TT_MODEL_MAX_CLASSES) {
        tt_model_settings_problem(self, findings, length, "classes",
                                  "%zu length classes; the maximum is %d", length->n_classes,
                                  TT_MODEL_MAX_CLASSES);
        return;
    }
    for (size_t i = 0; i < length->n_classes; i++) {
        int32_t before = i > 0 ? length->classes[i - 1] : 0;
        if (length->classes[i] <= before) {
            tt_model_settings_problem(self, findings, length, "classes",
                                      "length class %d follows %d; classes are positive and ascend",
                                      length->classes[i], before);
            return;
        }
        self->classes[self->class_count++] = length->classes[i];
    }
    if (length->n_classes > 0 && !length->pad)
        tt_model_settings_problem(
            self, findings, length, "classes",
            "length classes need pad: true, for a request is filled up to its class; if the "
            "model cannot take that (it has no mask input), leave the classes out");
}

static void take_stages(struct tt_model_settings *self, struct tt_findings *findings) {
    const Tutti__ModelStages *stages = self->message->stages;
    if (!stages)
        return;
    int ways = (stages->count != 0) + stages->per_node + stages->by_batch + stages->auto_ +
               (stages->n_after > 0);
    if (ways != 1)
        tt_model_settings_problem(
            self, findings, stages, NULL,
            "stages wants one of count, auto, per_node, by_batch and after, and has %d of them",
            ways);
    else if (stages->count < 0 || stages->count > TT_CUT_MAX_STAGES)
        tt_model_settings_problem(self, findings, stages, "count",
                                  "%d stages; 1 to %d are possible", stages->count,
                                  TT_CUT_MAX_STAGES);
    if (stages->slots < 0 || stages->batch < 0 || stages->length < 0)
        tt_model_settings_problem(self, findings, stages, NULL,
                                  "slots, batch and length are 0 or more");
    self->stages = stages;
}

static void take_slots(struct tt_model_settings *self, struct tt_findings *findings) {
    self->input_slots = self->message->input_slots;
    if (self->input_slots < 0 || self->input_slots > 1 << 24)
        tt_model_settings_problem(
            self, findings, self->message, "input_slots",
            "input_slots is %d; it is a number of rows from 1 to 16777216, 0 for the default",
            self->input_slots);
}

static void take_copies(const struct tt_model_settings *self,
                        const Tutti__ModelEmulatedCopies *given, struct tt_copy_engine *out_engine,
                        struct tt_findings *findings) {
    if (!given)
        return;
    if (!(given->fixed_us >= 0 && given->fixed_us <= 1e9) ||
        !(given->gb_per_s >= 0 && given->gb_per_s <= 1e6))
        tt_model_settings_problem(
            self, findings, given, NULL,
            "copies take fixed_us from 0 to 1e9 and gb_per_s from 0 to 1e6, not %g and %g",
            given->fixed_us, given->gb_per_s);
    else
        *out_engine =
            (struct tt_copy_engine){.fixed_ns = (int64_t)(given->fixed_us * 1e3 + 0.5),
                                    .bytes_per_s = (int64_t)(given->gb_per_s * 1e9 + 0.5)};
}

static void take_emulated_cells(const struct tt_model_settings *self,
                                const Tutti__ModelEmulatedCells *cells,
                                struct tt_findings *findings) {
    enum { MAX_LENGTH = 1 << 20 };
    if (!cells)
        return;
    if (cells->kind == TUTTI__MODEL_UNFOLD__KIND__PLUGIN)
        tt_model_settings_problem(
            self, findings, cells, "kind",
            "cells of a plug-in are not emulated: CHAIN, SEQ2SEQ and TREE are");
    if (cells->max_length < 0 || cells->max_length > MAX_LENGTH || cells->max_output < 0 ||
        cells->max_output > MAX_LENGTH)
        tt_model_settings_problem(self, findings, cells, NULL,
                                  "max_length and max_output are from 0 to %d", MAX_LENGTH);
    if (!(cells->task_us >= 0 && cells->task_us <= 1e9) ||
        !(cells->gather_row_us >= 0 && cells->gather_row_us <= 1e9))
        tt_model_settings_problem(self, findings, cells, NULL,
                                  "task_us and gather_row_us are from 0 to 1e9");
    if (cells->max_output > 0 && cells->kind != TUTTI__MODEL_UNFOLD__KIND__SEQ2SEQ)
        tt_model_settings_problem(self, findings, cells, "max_output",
                                  "max_output is for kind SEQ2SEQ: leave it out");
}

static void take_network(struct tt_model_settings *self, const Tutti__ModelEmulatedNetwork *given,
                         struct tt_findings *findings) {
    if (!given)
        return;
    bool is_good = given->control_us >= 0 && given->control_us <= 1e6 &&
                   given->data_us_per_row >= 0 && given->data_us_per_row <= 1e5;
    if (!is_good)
        tt_model_settings_problem(self, findings, given, NULL,
                                  "a network has control_us from 0 to 1e6 and data_us_per_row from "
                                  "0 to 1e5, not %g and %g",
                                  given->control_us, given->data_us_per_row);
    else if (given->control_us == 0 && given->data_us_per_row == 0)
        tt_model_settings_problem(self, findings, given, NULL,
                                  "a network without control_us and data_us_per_row has no effect: "
                                  "leave it out");
    else
        self->emulation.delay =
            (struct tt_network_delay){(int64_t)(given->control_us * 1e3 + 0.5),
                                      (int64_t)(given->data_us_per_row * 1e3 + 0.5)};
}

/* The span; a problem is reported. `from_s`: where the span before it ends. */
static void take_perturbation(struct tt_model_settings *self,
                              const Tutti__ModelEmulatedPerturbation *given, double from_s,
                              struct tt_findings *findings) {
    static const double max_s = 1e6;
    bool ends = given->until_s != 0;
    if (!(given->from_s >= from_s && given->from_s <= max_s) ||
        (ends && !(given->until_s > given->from_s && given->until_s <= max_s))) {
        tt_model_settings_problem(self, findings, given, NULL,
                                  "a span is from_s %g to until_s %g; it begins at %g or later, "
                                  "ends after its beginning, and by %g",
                                  given->from_s, given->until_s, from_s, max_s);
        return;
    }
    if (!(given->speed >= 0 && given->speed <= 1000) || given->speed == 1 ||
        (given->speed > 0 && given->speed < 0.001) || (!ends && given->speed == 0)) {
        tt_model_settings_problem(
            self, findings, given, "speed",
            "speed is %g; it is from 0.001 to 1000, or 0 in a span that ends; "
            "1 has no effect",
            given->speed);
        return;
    }
    struct tt_model_emulation *emulation = &self->emulation;
    emulation->perturbations[emulation->perturbation_count++] = (struct tt_perturbation){
        .from_at = (int64_t)(given->from_s * 1e9 + 0.5),
        .until_at = ends ? (int64_t)(given->until_s * 1e9 + 0.5) : INT64_MAX / 4,
        .speed_permille = (int32_t)(given->speed * TT_SPEED_NORMAL + 0.5)};
}

static void take_perturbations(struct tt_model_settings *self, const Tutti__ModelEmulation *given,
                               struct tt_findings *findings) {
    if (given->n_perturb > TT_MODEL_MAX_PERTURBATIONS) {
        tt_model_settings_problem(self, findings, given, "perturb",
                                  "%zu spans of perturb; there are at most %d", given->n_perturb,
                                  TT_MODEL_MAX_PERTURBATIONS);
        return;
    }
    double from_s = 0;
    for (size_t i = 0; i < given->n_perturb; i++) {
        take_perturbation(self, given->perturb[i], from_s, findings);
        from_s = given->perturb[i]->until_s != 0 ? given->perturb[i]->until_s : 1e300;
    }
}

/* On a device with streams the tensors themselves are copied. */
static void check_emulated_device(const struct tt_model_settings *self,
                                  const Tutti__ModelEmulation *given,
                                  struct tt_findings *findings) {
    if (given->input_bytes != 0 || given->output_bytes != 0)
        tt_model_settings_problem(
            self, findings, given, given->input_bytes ? "input_bytes" : "output_bytes",
            "on a `device` the tensors themselves are copied: leave input_bytes and output_bytes "
            "out");
    if (given->device_executors > 0)
        tt_model_settings_problem(self, findings, given, "device_executors",
                                  "all executors are streams of the one `device`: leave "
                                  "device_executors out");
    if (given->network || given->n_perturb > 0)
        tt_model_settings_problem(self, findings, given, given->network ? "network" : "perturb",
                                  "a `device` emulates copies, not %s: leave `device` or this out",
                                  given->network ? "a network" : "perturbations");
}

static void take_device(struct tt_model_settings *self, struct tt_findings *findings) {
    enum { DEFAULT_MB = 256, DEFAULT_CUDA_MB = 1024, MAX_MB = 1 << 20 };
    const Tutti__ModelDevice *given = self->message->device;
    if (!given)
        return;
    bool is_cuda = given->kind == TUTTI__MODEL_DEVICE__KIND__CUDA;
    int32_t default_mb = is_cuda ? DEFAULT_CUDA_MB : DEFAULT_MB;
    if (given->memory_mb < 0 || given->memory_mb > MAX_MB)
        tt_model_settings_problem(self, findings, given, "memory_mb",
                                  "memory_mb is %lld; it is a number from 1 to %d, 0 for %d",
                                  (long long)given->memory_mb, MAX_MB, default_mb);
    if (given->gpu < 0 || (given->gpu > 0 && !is_cuda))
        tt_model_settings_problem(self, findings, given, "gpu",
                                  "gpu is %d; with kind: CUDA it is a number from 0 on, else it is "
                                  "left out",
                                  given->gpu);
    self->device = (struct tt_model_device){
        .is_given = true,
        .copies_whole = given->copies == TUTTI__MODEL_DEVICE__COPIES__WHOLE,
        .is_cuda = is_cuda,
        .gpu = given->gpu,
        .memory_bytes = (given->memory_mb > 0 ? given->memory_mb : default_mb) * (1 << 20)};
    if (self->message->emulation)
        check_emulated_device(self, self->message->emulation, findings);
}

static void take_emulation(struct tt_model_settings *self, struct tt_findings *findings) {
    enum { MAX_EXECUTORS = 4096 };
    static const int64_t max_bytes = INT64_C(1) << 40;
    const Tutti__ModelEmulation *given = self->message->emulation;
    if (!given)
        return;
    self->emulation = (struct tt_model_emulation){
        .is_given = true,
        .device_executors = given->device_executors > 0 ? given->device_executors : 1,
        .input_bytes = given->input_bytes,
        .output_bytes = given->output_bytes,
        .cells = given->cells};
    take_emulated_cells(self, given->cells, findings);
    if (given->device_executors < 0 || given->device_executors > MAX_EXECUTORS)
        tt_model_settings_problem(self, findings, given, "device_executors",
                                  "device_executors is %d; it is a number from 1 to %d, 0 for 1",
                                  given->device_executors, MAX_EXECUTORS);
    if (given->input_bytes < 0 || given->input_bytes > max_bytes || given->output_bytes < 0 ||
        given->output_bytes > max_bytes)
        tt_model_settings_problem(self, findings, given, NULL,
                                  "input_bytes and output_bytes are from 0 to %lld",
                                  (long long)max_bytes);
    take_network(self, given->network, findings);
    take_perturbations(self, given, findings);
    take_copies(self, given->copy_in, &self->emulation.copy_in, findings);
    take_copies(self, given->copy_out, &self->emulation.copy_out, findings);
    if (given->cells && (given->input_bytes > 0 || given->output_bytes > 0))
        tt_model_settings_problem(self, findings, given, "cells",
                                  "inputs of cells are not copied: leave input_bytes and "
                                  "output_bytes out");
    bool copies_in = given->copy_in && given->input_bytes == 0;
    if (!self->message->device && (copies_in || (given->copy_out && given->output_bytes == 0)))
        tt_model_settings_problem(self, findings, given, copies_in ? "copy_in" : "copy_out",
                                  "%s needs %s: without it nothing is copied",
                                  copies_in ? "copy_in" : "copy_out",
                                  copies_in ? "input_bytes" : "output_bytes");
}

static void take_exit(const struct tt_model_settings *self, const Tutti__ModelExit *exit,
                      struct tt_findings *findings) {
    const Tutti__ModelMoved *moved = exit->moved;
    if ((*exit->condition != '\0') == (moved != NULL))
        tt_model_settings_problem(self, findings, exit, NULL,
                                  "an exit wants one of condition and moved");
    if (*exit->condition && !*exit->graph)
        tt_model_settings_problem(self, findings, exit, "condition",
                                  "condition '%s' wants the graph whose output it is",
                                  exit->condition);
    if (moved && (!*moved->tensor || !*moved->since || !(moved->less_than > 0)))
        tt_model_settings_problem(
            self, findings, moved, NULL,
            "moved wants two tensors, tensor and since, and a less_than above 0");
    if (exit->after_stage < 0)
        tt_model_settings_problem(self, findings, exit, "after_stage",
                                  "stages are counted from 0, not from %d", exit->after_stage);
    if (exit->go_to != 0 && exit->go_to < exit->after_stage + 2)
        tt_model_settings_problem(self, findings, exit, "go_to",
                                  "from stage %d to stage %d skips no stage", exit->after_stage,
                                  exit->go_to);
    if (exit->n_give > TT_MAX_TENSORS)
        tt_model_settings_problem(self, findings, exit, "give",
                                  "it gives %zu tensors; the maximum is %d", exit->n_give,
                                  TT_MAX_TENSORS);
    for (size_t i = 0; i < exit->n_give; i++)
        if (!*exit->give[i]->tensor || !*exit->give[i]->from)
            tt_model_settings_problem(self, findings, exit->give[i], NULL,
                                      "give wants tensor and from");
}

static void take_exits(const struct tt_model_settings *self, struct tt_findings *findings) {
    const Tutti__TuttiModel *message = self->message;
    if (message->n_exit > 0 && !self->stages)
        tt_model_settings_problem(
            self, findings, message->exit[0], NULL,
            "an exit stands between stages, and the model has none: say `stages { ... }`");
    if (message->n_exit > TT_MODEL_MAX_EXITS)
        tt_model_settings_problem(self, findings, message->exit[TT_MODEL_MAX_EXITS], NULL,
                                  "%zu exits; the maximum is %d", message->n_exit,
                                  TT_MODEL_MAX_EXITS);
    for (size_t i = 0; i < message->n_exit; i++)
        take_exit(self, message->exit[i], findings);
}

/* L3: interpolates from one point to the next, rounded up. */
static void draw_line(int32_t *quantiles, int32_t from, int32_t to, int32_t first, int32_t last) {
    int32_t span = to > from ? to - from : 1;
    for (int32_t p = from; p <= to; p++)
        quantiles[p] = first + (int32_t)(((int64_t)(last - first) * (p - from) + span - 1) / span);
}

static void take_output_lengths(struct tt_model_settings *self, struct tt_findings *findings) {
    const Tutti__ModelUnfold *unfold = self->unfold;
    int32_t percent = 0, length = 1;
    if (unfold && unfold->pin_output_length && unfold->n_output_length == 0)
        tt_model_settings_problem(self, findings, unfold, "pin_output_length",
                                  "pin_output_length needs output_length: there is nothing to "
                                  "believe instead of what the server learns");
    for (size_t i = 0; unfold && i < unfold->n_output_length; i++) {
        const Tutti__OutputLength *point = unfold->output_length[i];
        bool ascends = point->percent > percent || (i == 0 && point->percent == 0);
        if (unfold->kind != TUTTI__MODEL_UNFOLD__KIND__SEQ2SEQ) {
            tt_model_settings_problem(self, findings, point, NULL,
                                      "output_length is for SEQ2SEQ: other answers are as long as "
                                      "the request says");
            return;
        }
        if (!ascends || point->percent > TT_QUANTILES - 1 || point->length < length) {
            tt_model_settings_problem(self, findings, point, NULL,
                                      "%d percent of the outputs have at most %d elements: "
                                      "percents ascend up to 100, lengths do not descend from 1",
                                      point->percent, point->length);
            return;
        }
        draw_line(self->output_quantiles, percent, point->percent, length, point->length);
        percent = point->percent;
        length = point->length;
    }
}

/* C1, C2: model/cells/cells.c checks the cells themselves, with their files. */
static void take_cells(struct tt_model_settings *self, struct tt_findings *findings) {
    const Tutti__TuttiModel *message = self->message;
    self->unfold = message->unfold;
    if (message->n_cell > 0 && !message->unfold)
        tt_model_settings_problem(self, findings, message->cell[0], NULL,
                                  "cells need unfold { kind ... }: how a request becomes cells");
    else if (message->unfold && message->n_cell == 0)
        tt_model_settings_problem(self, findings, message->unfold, NULL,
                                  "unfold needs cells: cell { file: \"cell.onnx\" ... }");
    if (message->unfold && message->stages)
        tt_model_settings_problem(self, findings, message->stages, NULL,
                                  "a model of cells is not cut into stages; leave one of unfold "
                                  "and stages out");
    take_output_lengths(self, findings);
}

struct tt_cut_request tt_model_settings_cut(const struct tt_model_settings *self) {
    const Tutti__ModelStages *stages = self->stages;
    return (struct tt_cut_request){.how = stages->per_node   ? TT_CUT_PER_NODE
                                          : stages->by_batch ? TT_CUT_BY_BATCH
                                          : stages->auto_    ? TT_CUT_AUTO
                                          : stages->n_after  ? TT_CUT_AT
                                                             : TT_CUT_STAGES,
                                   .count = stages->count,
                                   .names = (const char *const *)stages->after,
                                   .name_count = (int32_t)stages->n_after};
}

static enum tt_err read_settings_file(struct tt_model_settings *self, struct tt_findings *findings,
                                      struct tt_error *why) {
    struct tt_text text = {0};
    enum tt_err err =
        tt_regular_file_read(self->file_name, TT_TEXTPROTO_MAX_FILE_BYTES, &text, why);
    self->from_file = err != TT_ERR_NOT_FOUND;
    ProtobufCMessage *message = NULL;
    if (!err || err == TT_ERR_NOT_FOUND)
        err =
            tt_textproto_read_places(self->file_name, tt_text_string(&text), text.length,
                                     &tutti__tutti_model__descriptor, &self->places, &message, why);
    tt_text_fini(&text);
    if (err) {
        tt_findings_add(findings, TT_FINDING_PROBLEM, "%s", why->text);
        return err;
    }
    self->message = (Tutti__TuttiModel *)message;
    return TT_OK;
}

enum tt_err tt_model_settings_open(const char *path, struct tt_model_settings **out_settings,
                                   struct tt_findings *findings) {
    struct tt_model_settings *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    struct tt_error why;
    self->file_name = strdup(path);
    enum tt_err err = self->file_name ? read_settings_file(self, findings, &why) : TT_ERR_NO_MEMORY;
    if (err) {
        tt_model_settings_free(self);
        if (err == TT_ERR_NO_MEMORY)
            return err;
        *out_settings = NULL;
        return TT_OK;
    }
    take_objective(self, findings);
    take_token_slo(self, findings);
    take_run_limit(self, findings);
    self->profile = self->message->profile;
    take_policy(self, findings);
    take_length(self, findings);
    take_stages(self, findings);
    take_slots(self, findings);
    take_emulation(self, findings);
    take_device(self, findings);
    take_exits(self, findings);
    take_cells(self, findings);
    *out_settings = self;
    return TT_OK;
}

void tt_model_settings_free(struct tt_model_settings *take_settings) {
    if (!take_settings)
        return;
    if (take_settings->message)
        protobuf_c_message_free_unpacked(&take_settings->message->base, NULL);
    tt_textproto_places_fini(&take_settings->places);
    free(take_settings->file_name);
    free(take_settings);
}

bool tt_model_settings_has_trees(const struct tt_model_settings *self) {
    if (!tt_model_settings_has_cells(self))
        return false;
    Tutti__ModelUnfold__Kind kind = self->unfold ? self->unfold->kind : self->emulation.cells->kind;
    return kind == TUTTI__MODEL_UNFOLD__KIND__TREE || kind == TUTTI__MODEL_UNFOLD__KIND__PLUGIN;
}

void tt_model_settings_check(const struct tt_model_settings *self,
                             const struct tt_signature *signature, struct tt_findings *findings) {
    if (!self->pad && self->class_count == 0)
        return;
    if (!signature->batched) {
        tt_model_settings_problem(
            self, findings, self->message, "length",
            "lengths need a model with a batch dimension (max_batch_size > 0)");
        return;
    }
    bool has_length = false;
    for (int32_t i = 0; i < signature->input_count; i++) {
        const struct tt_shape *shape = &signature->inputs[i].shape;
        has_length |= shape->rank > 1 && shape->dims[1] < 0;
    }
    if (!has_length)
        tt_model_settings_problem(
            self, findings, self->message, "length",
            "no input has a free dimension after the rows, so that no length varies");
}
