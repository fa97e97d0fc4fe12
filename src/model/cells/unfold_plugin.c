#include "model/cells/unfold_plugin.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/regular_file.h"
#include "model/cells/unfold_internal.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <tutti/unfold.h>
#include <unistd.h>

struct tt_unfold_plugin {
    int copy; /* descriptor of a copy of the file in memory; -1: none */
    void *library;
    const struct tutti_unfold_plugin *table;
    void *state;
    bool opened;
    char *file; /* path, for messages */
    int64_t time_limit_ns;
};

/* The cells of one request so far. */
struct gathering {
    const struct tt_cells *cells;
    const struct tt_unfold_plugin *plugin;
    int32_t length; /* elements of the request */
    int64_t give_up_at;
    int64_t cell_count;
    int32_t spec_count, source_count;
    int64_t spec_capacity, element_capacity, source_capacity;
    struct tt_cell_spec *specs; /* `sources` is filled in by pack() */
    struct tt_unfold_elements *elements;
    int32_t *sources; /* of all specs, one after the other */
    enum tt_err err;
    struct tt_error *why;
};

enum { STOP = -1 };

/* ---- opening ---- */

/* Copies the file to memory; -1: not possible. */
static int copy_file(int from) {
    int to = memfd_create("tutti-plugin", MFD_CLOEXEC);
    ssize_t sent = 1;
    while (to >= 0 && sent > 0) /* to the end of the file, even if it grows */
        sent = sendfile(to, from, NULL, 1 << 20);
    if (to >= 0 && sent != 0) {
        close(to);
        to = -1;
    }
    return to;
}

/* Loads a copy. Overwriting a plug-in that is in use would crash the server, and loading it again
 * under its old name would return the old one. If no copy can be made (or run: a kernel may forbid
 * it), the file itself is loaded. */
static enum tt_err load_library(struct tt_unfold_plugin *self, struct tt_error *why) {
    char name[64];
    int file;
    enum tt_err err = tt_regular_file_open(self->file, &file, why);
    if (err)
        return err;
    self->copy = copy_file(file);
    close(file);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", self->copy);
    if (self->copy >= 0)
        self->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!self->library)
        self->library = dlopen(self->file, RTLD_NOW | RTLD_LOCAL);
    return self->library ? TT_OK : tt_fail(TT_ERR_INVALID, why, "%s", dlerror());
}

static bool find_table(struct tt_unfold_plugin *self, struct tt_cells_work *work) {
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    struct tt_error why;
    if (load_library(self, &why)) {
        tt_cells_problem(work, unfold, "plugin", "%s", why.text);
        return false;
    }
    const struct tutti_unfold_plugin *(*give)(void) = NULL;
    *(void **)&give = dlsym(self->library, "tutti_unfold_plugin");
    const struct tutti_unfold_plugin *table = give ? give() : NULL;
    if (!table) {
        tt_cells_problem(work, unfold, "plugin",
                         "%s: %s; a plug-in exports `const struct tutti_unfold_plugin "
                         "*tutti_unfold_plugin(void)`",
                         self->file,
                         give ? "tutti_unfold_plugin() returned NULL"
                              : "there is no function tutti_unfold_plugin");
        return false;
    }
    if (table->version != TUTTI_UNFOLD_VERSION) {
        tt_cells_problem(work, unfold, "plugin",
                         "%s is of version %u of the interface; this program has version %d: "
                         "compile it again with this release's tutti/unfold.h",
                         self->file, table->version, TUTTI_UNFOLD_VERSION);
        return false;
    }
    if (!table->unfold) {
        tt_cells_problem(work, unfold, "plugin", "%s has no function `unfold` in its table",
                         self->file);
        return false;
    }
    self->table = table;
    return true;
}

static bool open_state(struct tt_unfold_plugin *self, struct tt_cells_work *work) {
    const struct tt_cells *cells = work->cells;
    struct tutti_unfold_type types[TT_CELLS_MAX_TYPES];
    const char *names[TT_MAX_TENSORS];
    for (int32_t i = 0; i < cells->type_count; i++)
        types[i] = (struct tutti_unfold_type){.name = cells->types[i].name,
                                              .arity = cells->types[i].arity,
                                              .reads_input = cells->types[i].read_count > 0};
    for (int32_t i = 0; i < cells->signature.input_count; i++)
        names[i] = cells->signature.inputs[i].name;
    struct tutti_unfold_model model = {.type_count = cells->type_count,
                                       .types = types,
                                       .input_count = cells->signature.input_count,
                                       .input_names = names,
                                       .max_length = cells->max_length,
                                       .max_cells = cells->max_cells};
    char why[512] = "";
    int code = 0;
    if (self->table->open)
        code = self->table->open(&model, work->settings->unfold->parameter, &self->state, why,
                                 sizeof(why));
    why[sizeof(why) - 1] = '\0';
    if (code != 0)
        tt_cells_problem(work, work->settings->unfold, "plugin", "%s rejects this model: %s",
                         self->file, *why ? why : "it gives no reason");
    self->opened = code == 0;
    return self->opened;
}

struct tt_unfold_plugin *tt_unfold_plugin_open(struct tt_cells_work *work,
                                               const char *model_directory) {
    const Tutti__ModelUnfold *unfold = work->settings->unfold;
    if (!*unfold->plugin || unfold->time_limit_us < 0) {
        tt_cells_problem(work, unfold, *unfold->plugin ? "time_limit_us" : "plugin",
                         *unfold->plugin ? "time_limit_us is 0 or more"
                                         : "PLUGIN wants plugin: with the shared object's file");
        return NULL;
    }
    struct tt_unfold_plugin *self = calloc(1, sizeof(*self));
    int made = -1;
    if (self) {
        self->copy = -1;
        made = *unfold->plugin == '/'
                   ? asprintf(&self->file, "%s", unfold->plugin)
                   : asprintf(&self->file, "%s/%s", model_directory, unfold->plugin);
    }
    if (made < 0) {
        work->no_memory = true;
        free(self);
        return NULL;
    }
    self->time_limit_ns = INT64_C(1000) * (unfold->time_limit_us ? unfold->time_limit_us
                                                                 : TT_UNFOLD_DEFAULT_TIME_LIMIT_US);
    if (find_table(self, work) && open_state(self, work))
        return self;
    tt_unfold_plugin_close(self);
    return NULL;
}

void tt_unfold_plugin_close(struct tt_unfold_plugin *take_plugin) {
    if (!take_plugin)
        return;
    if (take_plugin->opened && take_plugin->table->close)
        take_plugin->table->close(take_plugin->state);
    if (take_plugin->library)
        dlclose(take_plugin->library);
    if (take_plugin->copy >= 0)
        close(take_plugin->copy); /* last: its number is the library's name */
    free(take_plugin->file);
    free(take_plugin);
}

/* ---- one request ---- */

/* Keeps the first error for the client. */
static int32_t stop(struct gathering *self, enum tt_err err, const char *format, ...)
    TT_PRINTF(3, 4);

static int32_t stop(struct gathering *self, enum tt_err err, const char *format, ...) {
    if (self->err)
        return STOP;
    va_list args;
    struct tt_error sentence;
    va_start(args, format);
    vsnprintf(sentence.text, sizeof(sentence.text), format, args);
    va_end(args);
    const char *name = self->plugin->table->name;
    self->err = tt_fail(err, self->why, "the unfold function '%s': %s",
                        name ? name : self->plugin->file, sentence.text);
    return STOP;
}

static bool make_room(struct gathering *self, int32_t more_sources) {
    return TT_ARRAY_RESERVE(self->specs, &self->spec_capacity, self->spec_count + 1) &&
           TT_ARRAY_RESERVE(self->elements, &self->element_capacity, self->spec_count + 1) &&
           TT_ARRAY_RESERVE(self->sources, &self->source_capacity,
                            self->source_count + more_sources);
}

static int32_t check_limits(struct gathering *self, const struct tutti_unfold_cells *cells) {
    int32_t number = self->spec_count;
    if (cells->type < 0 || cells->type >= self->cells->type_count)
        return stop(self, TT_ERR_INVALID, "cells %d are of type %d; there are types 0 to %d",
                    number, cells->type, self->cells->type_count - 1);
    if (cells->count < 1)
        return stop(self, TT_ERR_INVALID, "cells %d are a chain of %d; the minimum is 1", number,
                    cells->count);
    self->cell_count += cells->count;
    if (self->cell_count > self->cells->max_cells)
        return stop(self, TT_ERR_INVALID, "more than the %d cells that a request may have",
                    self->cells->max_cells);
    if (tt_clock_now() > self->give_up_at)
        return stop(self, TT_ERR_INVALID, "it took longer than %lld us for this request",
                    (long long)(self->plugin->time_limit_ns / 1000));
    return number;
}

static int32_t check_elements(struct gathering *self, const struct tutti_unfold_cells *cells) {
    int32_t number = self->spec_count;
    if (self->cells->types[cells->type].read_count == 0)
        return number;
    int64_t first = cells->first_element, last;
    if (cells->stride != 1 && cells->stride != -1 && cells->count > 1)
        return stop(self, TT_ERR_INVALID, "cells %d read with stride %d; 1 or -1 is possible",
                    number, cells->stride);
    if (__builtin_add_overflow(first, (int64_t)(cells->count - 1) * cells->stride, &last) ||
        first < 0 || first >= self->length || last < 0 || last >= self->length)
        return stop(self, TT_ERR_INVALID,
                    "cells %d read elements from %lld on, %d of them; the request has 0 to %d",
                    number, (long long)first, cells->count, self->length - 1);
    return number;
}

static int32_t check_sources(struct gathering *self, const struct tutti_unfold_cells *cells) {
    const struct tt_cell_type *type = &self->cells->types[cells->type];
    int32_t number = self->spec_count;
    if (cells->source_count != 0 && cells->source_count != type->arity)
        return stop(self, TT_ERR_INVALID, "cells %d read %d others, but '%s' reads %d or none",
                    number, cells->source_count, type->name, type->arity);
    if (cells->count > 1 && (type->arity != 1 || !(type->readable >> cells->type & 1u)))
        return stop(self, TT_ERR_INVALID, "cells %d are a chain of '%s', which reads %d others",
                    number, type->name, type->arity);
    for (int32_t i = 0; i < cells->source_count; i++) {
        int32_t source = cells->sources[i];
        if (source < 0 || source >= number)
            return stop(self, TT_ERR_INVALID,
                        "cells %d read cells %d, which are not there yet; cells read only earlier "
                        "ones, so that there is no cycle",
                        number, source);
        int32_t from = self->specs[source].first_step;
        if (!(type->readable >> from & 1u))
            return stop(self, TT_ERR_INVALID,
                        "cells %d read cells %d, but the states of '%s' are not those of '%s'",
                        number, source, self->cells->types[from].name, type->name);
    }
    return number;
}

static int32_t add(void *context, const struct tutti_unfold_cells *cells) {
    struct gathering *self = context;
    if (self->err)
        return STOP;
    if (check_limits(self, cells) < 0 || check_elements(self, cells) < 0 ||
        check_sources(self, cells) < 0)
        return STOP;
    if (!make_room(self, cells->source_count))
        return stop(self, TT_ERR_NO_MEMORY, "out of memory");
    int32_t number = self->spec_count++;
    self->specs[number] =
        (struct tt_cell_spec){.first_step = cells->type,
                              .last_step = cells->type,
                              .repeat = cells->count,
                              .open_ended = cells->open_ended != 0 && cells->count > 1,
                              .source_count = cells->source_count};
    self->elements[number] = (struct tt_unfold_elements){0};
    if (self->cells->types[cells->type].read_count > 0)
        self->elements[number] = (struct tt_unfold_elements){.first = (int32_t)cells->first_element,
                                                             .stride = cells->stride};
    if (cells->source_count > 0)
        memcpy(self->sources + self->source_count, cells->sources,
               (size_t)cells->source_count * sizeof(*cells->sources));
    self->source_count += cells->source_count;
    return number;
}

static int32_t refuse(void *context, const char *sentence) {
    return stop(context, TT_ERR_INVALID, "%s", sentence);
}

static void check_whole(struct gathering *self) {
    if (self->spec_count == 0) {
        stop(self, TT_ERR_INVALID, "it made no cell");
        return;
    }
    for (int32_t i = 0; i < self->spec_count; i++)
        if (self->specs[i].open_ended && /* a single cell needs no end */
            (self->cells->eos_count == 0 || self->cells->types[self->specs[i].first_step].emit < 0))
            stop(self, TT_ERR_INVALID, "cells %d have an open end, but emit nothing that ends them",
                 i);
    const struct tt_cell_spec *last = &self->specs[self->spec_count - 1];
    const struct tt_cell_type *type = &self->cells->types[last->first_step];
    if (type->answers[0] < 0)
        stop(self, TT_ERR_INVALID,
             "the last cells are of type '%s', which lacks an output of the answer", type->name);
}

/* Copies the gathered cells into one allocation. */
static enum tt_err pack(const struct gathering *self, struct tt_unfolded **out_unfolded) {
    int32_t *sources = NULL;
    struct tt_unfolded *unfolded =
        tt_unfolded_new(self->spec_count, self->source_count, &sources, self->why);
    if (!unfolded)
        return TT_ERR_NO_MEMORY;
    memcpy(unfolded->specs, self->specs, (size_t)self->spec_count * sizeof(*self->specs));
    memcpy(unfolded->elements, self->elements, (size_t)self->spec_count * sizeof(*self->elements));
    if (self->source_count > 0)
        memcpy(sources, self->sources, (size_t)self->source_count * sizeof(*sources));
    for (int32_t i = 0; i < self->spec_count; i++) {
        unfolded->specs[i].sources = sources;
        sources += unfolded->specs[i].source_count;
    }
    unfolded->answer_spec = self->spec_count - 1;
    const struct tt_cell_spec *last = &unfolded->specs[unfolded->answer_spec];
    unfolded->output_length = self->cells->types[last->first_step].emit >= 0 ? last->repeat : 0;
    *out_unfolded = unfolded;
    return TT_OK;
}

enum tt_err tt_unfold_plugin_run(const struct tt_cells *cells,
                                 const struct tt_unfold_tensor *tensors, int32_t length,
                                 struct tt_unfolded **out_unfolded, struct tt_error *why) {
    struct tt_unfold_plugin *plugin = cells->plugin;
    struct tutti_unfold_tensor inputs[TT_MAX_TENSORS];
    const struct tt_signature *signature = &cells->signature;
    for (int32_t i = 0; i < signature->input_count; i++)
        inputs[i] = (struct tutti_unfold_tensor){
            .name = signature->inputs[i].name,
            .datatype = tt_dtype_name(signature->inputs[i].dtype),
            .elements = tensors[i].bytes,
            .element_bytes = (size_t)tt_shape_count(&tensors[i].shape, 2) *
                             tt_dtype_bytes(signature->inputs[i].dtype)};
    struct tutti_unfold_request request = {
        .length = length, .input_count = signature->input_count, .inputs = inputs};
    struct gathering gathering = {.cells = cells,
                                  .plugin = plugin,
                                  .length = length,
                                  .give_up_at = tt_clock_now() + plugin->time_limit_ns,
                                  .why = why};
    struct tutti_unfold_sink sink = {.context = &gathering, .add = add, .refuse = refuse};
    int32_t code = plugin->table->unfold(plugin->state, &request, &sink);
    if (code != 0)
        stop(&gathering, TT_ERR_INVALID, "it failed with %d", code);
    else if (tt_clock_now() > gathering.give_up_at)
        stop(&gathering, TT_ERR_INVALID, "it took longer than %lld us for this request",
             (long long)(plugin->time_limit_ns / 1000));
    if (!gathering.err)
        check_whole(&gathering);
    enum tt_err err = gathering.err ? gathering.err : pack(&gathering, out_unfolded);
    free(gathering.specs);
    free(gathering.elements);
    free(gathering.sources);
    return err;
}
