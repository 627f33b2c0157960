// The part of Business Central's API 2.0 that the profile reads.
@path: '/v2.0/sample/Production/api/v2.0'
service businesscentral {
  entity companies {
    key id          : UUID;
        name        : String;
        displayName : String;
        customers   : Composition of many customers on customers.company = $self;
  }
  entity customers {
    key id                    : UUID;
        company               : Association to companies;
        number                : String;
        displayName           : String;
        type                  : String;
        addressLine1          : String;
        addressLine2          : String;
        city                  : String;
        state                 : String;
        postalCode            : String;
        country               : String;
        phoneNumber           : String;
        email                 : String;
        taxRegistrationNumber : String;
        currencyCode          : String;
        blocked               : String;
        lastModifiedDateTime  : Timestamp;
  }
}
