//! Field numbers of `DiscoveryRequest` and `DeltaDiscoveryRequest`.

/// Field numbers of one of the two messages; zero for fields that it does not have.
#[derive(Debug)]
pub(super) struct FieldNumbers {
    pub(super) version: u32,
    pub(super) node: u32,
    pub(super) type_url: u32,
    pub(super) nonce: u32,
    pub(super) error_detail: u32,
    pub(super) subscribe: u32,
    pub(super) subscribe_locators: u32,
    pub(super) unsubscribe: u32,
    pub(super) unsubscribe_locators: u32,
    pub(super) initial_versions: u32,
}

pub(super) const STATE_OF_THE_WORLD: FieldNumbers = FieldNumbers {
    version: 1,
    node: 2,
    type_url: 4,
    nonce: 5,
    error_detail: 6,
    subscribe: 3,
    subscribe_locators: 7,
    unsubscribe: 0,
    unsubscribe_locators: 0,
    initial_versions: 0,
};

pub(super) const INCREMENTAL: FieldNumbers = FieldNumbers {
    version: 0,
    node: 1,
    type_url: 2,
    nonce: 6,
    error_detail: 7,
    subscribe: 3,
    subscribe_locators: 8,
    unsubscribe: 4,
    unsubscribe_locators: 9,
    initial_versions: 5,
};

/// Field `name` of a `ResourceLocator`.
pub(super) const LOCATOR_NAME: u32 = 1;
/// Field `dynamic_parameters` of a `ResourceLocator`.
pub(super) const LOCATOR_PARAMETERS: u32 = 2;
/// Key of a map entry.
pub(super) const KEY: u32 = 1;
/// Value of a map entry.
pub(super) const VALUE: u32 = 2;
