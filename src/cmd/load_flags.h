/* The flags of `tutti load`, read and checked one by one; what they mean together is the work of
 * load_plan.h. Strings are borrowed from argv. */
#ifndef TT_CMD_LOAD_FLAGS_H
#define TT_CMD_LOAD_FLAGS_H

#include "lab/load/arrivals.h"

enum { TT_LOAD_FLAG_ITEMS = 64 };

/* A flag that may be given for all ("VALUE") or for one model ("MODEL=VALUE"), several times. */
struct tt_load_items {
    const char *texts[TT_LOAD_FLAG_ITEMS];
    int32_t count;
};

struct tt_load_flags {
    const char *url;
    struct tt_load_items models; /* NAME or NAME:WEIGHT */
    const char *experiment;      /* instead of models */
    struct tt_load_items maps;   /* NAME=SERVED, *=SERVED */
    const char *arrivals;        /* CSV */
    double rate;                 /* < 0: not given */
    bool has_process;
    enum tt_process process;
    int64_t gamma_shape_ppm;          /* 0: not given */
    double duration_s, warm_up_s;     /* < 0: not given */
    int64_t requests, seed;           /* < 0: not given */
    int64_t concurrency;              /* 0: open loop */
    int64_t rows;                     /* 0: not given */
    const char *length;               /* N, A-B or @FILE */
    struct tt_load_items shapes;      /* INPUT:DIMS or MODEL/INPUT:DIMS */
    struct tt_load_items input_files; /* FILE or MODEL=FILE */
    bool binary;
    struct tt_load_items slos; /* MS or MODEL=MS */
    int64_t timeout_us;        /* < 0: as the SLO says */
    int64_t priority;
    int64_t connections, give_up_ms;
    bool json, yes_remote;
    const char *csv, *svg, *html;
    double fail_bad_rate; /* < 0: never */
};

/* -1: go on; else the exit code, all said. */
int tt_load_flags_parse(int argc, char **argv, struct tt_load_flags *out_flags);

#endif
