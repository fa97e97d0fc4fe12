/* Facts files and their experiments in a folder of their own, and the value of a fact. All
 * functions are inline; there is no .c file.
 *
 * Usage: a group of tests with fact_files_make and fact_files_remove; put() writes a file, place()
 * names it, value_of() runs the only fact of a text. */
#ifndef TT_TESTS_FACT_FILES_H
#define TT_TESTS_FACT_FILES_H

#include "lab/facts/fact_runs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD "fact { id: \"a\" what: \"w\" published: 10 "

static char folder[] = "/tmp/tutti-facts-XXXXXX";

static inline const char *place(const char *name) {
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static inline void put(const char *name, const char *content) {
    struct tt_text text;
    struct tt_error why;
    tt_text_init(&text);
    tt_text_puts(&text, content);
    assert_int_equal(tt_text_write_file(place(name), &text, &why), TT_OK);
    tt_text_fini(&text);
}

static inline int fact_files_make(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int fact_files_remove(void **state) {
    (void)state;
    unlink(place("facts.pbtxt"));
    unlink(place("example.pbtxt"));
    unlink(place("example.state"));
    return rmdir(folder);
}

/* Two requests per millisecond on one device, l(b) = b ms, batches whenever the device is free. */
static const char example[] =
    "duration_s: 0.0024 device { count: 1 } model { name: \"M\" slo_ms: 4 "
    "profile { linear { alpha_ms: 1 } } } "
    "load { interval_us: 500 process: UNIFORM } policy { name: \"eager\" }";

/* Runs the only fact of the text; the file example.pbtxt is the experiment above. */
static inline double value_of(const char *facts_text, struct tt_text *note) {
    put("example.pbtxt", example);
    put("facts.pbtxt", facts_text);
    struct tt_facts facts;
    struct tt_error why = {""};
    struct tt_fact_runs *runs;
    bool chosen = true;
    struct tt_fact_runs_options options = {.workers = 1};
    assert_int_equal(tt_facts_open(&facts, place("facts.pbtxt"), &why), TT_OK);
    assert_int_equal(tt_fact_runs_new(&facts, &chosen, &options, &runs, &why), TT_OK);
    assert_true(isnan(tt_fact_runs_value(runs, 0, NULL)));
    assert_int_equal(tt_fact_runs_run(runs, &why), TT_OK);
    double value = tt_fact_runs_value(runs, 0, note);
    tt_fact_runs_free(runs);
    tt_facts_close(&facts);
    return value;
}

#endif
