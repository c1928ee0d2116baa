__device__ __forceinline__ float fw_maximum_f32_of_1024(float x, void* sums, int lane) {
    x = fw_maximum(x, fw_from_lane(x, 16));
    x = fw_maximum(x, fw_from_lane(x, 8));
    x = fw_maximum(x, fw_from_lane(x, 4));
    x = fw_maximum(x, fw_from_lane(x, 2));
    x = fw_maximum(x, fw_from_lane(x, 1));
    float* parts = (float*)sums;
    __syncthreads();  // for threads that still read the earlier values
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
    __syncthreads();  // for threads that still read the earlier values
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
    for (int iteration4 = 0; iteration4 < 3; ++iteration4) {
        const int k_3 = lane + iteration4 * 1024;
        if (k_3 < 3001) {
            const int v5 = (task * 3001);
            const float v6 = x0[(v5 + k_3)];
            part2 = fw_maximum(part2, v6);
        }
    }
    r0_1 = fw_maximum(r0_1, fw_maximum_f32_of_1024(part2, sums, lane));
    float r2_7 = 0.0f;
    float part8 = -0.0f;
    #pragma unroll
    for (int iteration10 = 0; iteration10 < 3; ++iteration10) {
        const int k_9 = lane + iteration10 * 1024;
        if (k_9 < 3001) {
            const int v11 = (task * 3001);
            const float v12 = x0[(v11 + k_9)];
            const float v13 = expf((v12 - r0_1));
            float t0_14 = v13;
            part8 = (part8 + v13);
            row0[k_9] = t0_14;
        }
    }
    r2_7 = (r2_7 + fw_add_f32_of_1024(part8, sums, lane));
    #pragma unroll
    for (int iteration16 = 0; iteration16 < 3; ++iteration16) {
        const int k_15 = lane + iteration16 * 1024;
        if (k_15 < 3001) {
            const float v17 = row0[k_15];
            float t0_18 = (v17 / r2_7);
            const int v19 = (task * 3001);
            b0[(v19 + k_15)] = t0_18;
        }
    }
}
