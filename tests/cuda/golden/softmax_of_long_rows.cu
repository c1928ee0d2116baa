__device__ __forceinline__ float fw_maximum_f32_of_1024(float x, void* sums, int lane) {
    x = fw_maximum(x, fw_from_lane(x, 16));
    x = fw_maximum(x, fw_from_lane(x, 8));
    x = fw_maximum(x, fw_from_lane(x, 4));
    x = fw_maximum(x, fw_from_lane(x, 2));
    x = fw_maximum(x, fw_from_lane(x, 1));
    float* parts = (float*)sums;
    __syncthreads();  // whoever still reads what was there before
    if (lane % 32 == 0) parts[lane / 32] = x;
    __syncthreads();
    x = parts[lane % 32];
    x = fw_maximum(x, fw_from_lane(x, 16));
    x = fw_maximum(x, fw_from_lane(x, 8));
    x = fw_maximum(x, fw_from_lane(x, 4));
    x = fw_maximum(x, fw_from_lane(x, 2));
    x = fw_maximum(x, fw_from_lane(x, 1));
    return x;
}
__device__ __forceinline__ float fw_add_f32_of_1024(float x, void* sums, int lane) {
    x = (x + fw_from_lane(x, 16));
    x = (x + fw_from_lane(x, 8));
    x = (x + fw_from_lane(x, 4));
    x = (x + fw_from_lane(x, 2));
    x = (x + fw_from_lane(x, 1));
    float* parts = (float*)sums;
    __syncthreads();  // whoever still reads what was there before
    if (lane % 32 == 0) parts[lane / 32] = x;
    __syncthreads();
    x = parts[lane % 32];
    x = (x + fw_from_lane(x, 16));
    x = (x + fw_from_lane(x, 8));
    x = (x + fw_from_lane(x, 4));
    x = (x + fw_from_lane(x, 2));
    x = (x + fw_from_lane(x, 1));
    return x;
}
extern "C" __global__ void __launch_bounds__(1024, 1)
k0_max_exp_divide(const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    __shared__ __align__(16) float all_row0[3004];
    float* const row0 = all_row0;
    __shared__ __align__(16) unsigned char sums[256];
    float r0_1 = __uint_as_float(0xff800000u);
    float part2 = __uint_as_float(0xff800000u);
    #pragma unroll
    for (int turn4 = 0; turn4 < 3; ++turn4) {
        const int k_3 = lane + turn4 * 1024;
        if (k_3 < 3001) {
            const int v5 = (task * 3001);
            const int v6 = (v5 + k_3);
            const float v7 = x0[v6];
            part2 = fw_maximum(part2, v7);
        }
    }
    r0_1 = fw_maximum(r0_1, fw_maximum_f32_of_1024(part2, sums, lane));
    float r2_8 = 0.0f;
    float part9 = -0.0f;
    #pragma unroll
    for (int turn11 = 0; turn11 < 3; ++turn11) {
        const int k_10 = lane + turn11 * 1024;
        if (k_10 < 3001) {
            const int v12 = (task * 3001);
            const float v13 = x0[(v12 + k_10)];
            const float v14 = expf((v13 - r0_1));
            float t0_15 = v14;
            part9 = (part9 + v14);
            row0[k_10] = t0_15;
        }
    }
    r2_8 = (r2_8 + fw_add_f32_of_1024(part9, sums, lane));
    #pragma unroll
    for (int turn17 = 0; turn17 < 3; ++turn17) {
        const int k_16 = lane + turn17 * 1024;
        if (k_16 < 3001) {
            const float v18 = row0[k_16];
            float t0_19 = (v18 / r2_8);
            const int v20 = (task * 3001);
            const int v21 = (v20 + k_16);
            b0[v21] = t0_19;
        }
    }
}
